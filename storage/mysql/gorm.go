package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

// adopt returns the server that db is connected to, and its name for people.
func adopt(db *gorm.DB, timeout time.Duration) (*server, string, error) {
	switch {
	case db == nil:
		return nil, "", errors.New("db is nil")
	case db.Error != nil:
		return nil, "", fmt.Errorf("db has an error already: %w", db.Error)
	case db.Dialector == nil || db.Name() != gormmysql.DefaultDriverName:
		return nil, "", errors.New("db is not one of gorm.io/driver/mysql")
	}
	pool := db.ConnPool
	if db.Statement != nil && db.Statement.ConnPool != nil {
		pool = db.Statement.ConnPool
	}
	if _, ok := pool.(gorm.TxCommitter); ok {
		return nil, "", errors.New("db is inside a transaction, where a claim protects nothing until that commits: give the *gorm.DB that the transaction was begun on")
	}
	if config := dsnOf(db.Dialector); config != nil {
		delete(config.Params, waitVariable) // what suits the program's transactions
		pool, err := openPool(config, defaultConns, timeout)
		if err != nil {
			return nil, "", fmt.Errorf("the DSN of db: %w", err)
		}
		return newServer(pool, defaultConns), nameOf(config), nil
	}
	sqlDB, err := db.DB()
	if err != nil {
		return nil, "", fmt.Errorf("db has no connection pool: %w", err)
	}
	return &server{db: sqlDB, conns: defaultConns, shared: true}, "(the pool of a *gorm.DB)", nil
}

// dsnOf returns what db's connections are opened by, or nil if it was given them.
func dsnOf(d gorm.Dialector) *mysqldriver.Config {
	var config *gormmysql.Config
	switch d := d.(type) {
	case *gormmysql.Dialector:
		config = d.Config
	case gormmysql.Dialector:
		config = d.Config
	}
	if config == nil || config.Conn != nil || config.DSN == "" {
		return nil
	}
	if config.DriverName != "" && config.DriverName != gormmysql.DefaultDriverName {
		return nil
	}
	parsed, err := mysqldriver.ParseDSN(config.DSN)
	if err != nil {
		return nil
	}
	return parsed
}

// defaultConns is how many connections a store opens at most.
const defaultConns = 32

// waitVariable is how long a session waits for a lock.
const waitVariable = "innodb_lock_wait_timeout"

// openPool opens connections of the store's own, on which nothing takes longer than timeout. It changes config.
func openPool(config *mysqldriver.Config, conns int, timeout time.Duration) (*sql.DB, error) {
	if config.DBName == "" {
		return nil, errors.New("it names no database: host:port/database")
	}
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	if config.Params[waitVariable] == "" {
		config.Params[waitVariable] = fmt.Sprint(lockWait)
	}
	// A claim that nobody commits protects nothing.
	config.Params["autocommit"] = "1"
	// All text is sent as bytes, so that the character set makes no difference but one: in gbk and the like a byte of a value can
	// swallow the backslash that the driver puts behind it.
	if err := config.Apply(mysqldriver.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	// Statements of several keys go out in one round trip. Those of one key are prepared all the same.
	config.InterpolateParams = true
	// A statement that nobody watches ends by these, others by their contexts, which are to be first.
	const later = 100 * time.Millisecond
	for _, limit := range []*time.Duration{&config.Timeout, &config.ReadTimeout, &config.WriteTimeout} {
		if *limit <= 0 || *limit > timeout {
			*limit = timeout + later
		}
	}
	// What the driver logs it returns as well, and a store does not log.
	config.Logger = &mysqldriver.NopLogger{}
	connector, err := mysqldriver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(maxIdleTime)
	db.SetConnMaxLifetime(maxLifetime)
	return db, nil
}

func nameOf(config *mysqldriver.Config) string { return config.Addr + "/" + config.DBName }
