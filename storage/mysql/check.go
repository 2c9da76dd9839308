package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check looks whether the server can serve as a store: that it is not read-only, that the table is there and made as [Schema] says, and
// that the user may read and write it. Its error names every problem that it found, and what to do. The warnings are sentences about what
// works but may lose records, such as a server that does not flush at each commit; they are kept for [Store.Warnings].
func (s *Store) Check(ctx context.Context) (warnings []string, err error) {
	warnings, err = s.check(ctx)
	if err != nil {
		return nil, fmt.Errorf("storage/mysql: check: %w", s.explain(ctx, err))
	}
	return warnings, nil
}

// Warnings returns what the last [Store.Check] that came to its end warned about, that of [New] or [Open] included.
func (s *Store) Warnings() []string {
	if w := s.warnings.Load(); w != nil {
		return append([]string(nil), *w...)
	}
	return nil
}

var errAutocommit = errors.New("autocommit is off in this connection pool, so that no claim would ever be committed: take autocommit=0 out of its DSN")

func (s *Store) check(parent context.Context) (warnings []string, err error) {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return nil, err
	}
	defer end()
	settings, err := s.settings(ctx)
	if err != nil {
		return nil, err
	}
	if settings["autocommit"] == "OFF" {
		return nil, errAutocommit
	}
	if settings["read_only"] == "ON" || settings["super_read_only"] == "ON" || settings["innodb_read_only"] == "ON" {
		return nil, errors.New("the server is read-only, a replica perhaps: connect to the primary")
	}
	if err := s.awaitTable(ctx); err != nil {
		return nil, err
	}
	if err := s.compare(ctx); err != nil {
		return nil, err
	}
	if err := s.rehearse(ctx); err != nil {
		return nil, err
	}
	warnings = concerns(settings)
	s.warnings.Store(&warnings)
	return warnings, nil
}

// settings reads the variables of the server that matter. Those that it does not have are missing.
func (s *Store) settings(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.QueryContext(ctx, "SHOW VARIABLES WHERE Variable_name IN "+
		"('autocommit', 'read_only', 'super_read_only', 'innodb_read_only', 'innodb_flush_log_at_trx_commit', 'wsrep_on')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	settings := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		settings[strings.ToLower(name)] = strings.ToUpper(value)
	}
	return settings, rows.Err()
}

func concerns(settings map[string]string) (warnings []string) {
	if v := settings["innodb_flush_log_at_trx_commit"]; v != "" && v != "1" && settings["wsrep_on"] != "ON" {
		warnings = append(warnings, fmt.Sprintf("innodb_flush_log_at_trx_commit is %s, with which a server that crashes forgets the claims and DONE "+
			"of its last second, so that finished messages may run again: set it to 1", v))
	}
	return warnings
}

// awaitTable gives a table that another node of a cluster has just made some time to come here.
func (s *Store) awaitTable(ctx context.Context) error {
	for tries := 10; ; tries-- {
		there, err := s.tableThere(ctx)
		if err != nil || there {
			return err
		}
		if tries == 0 {
			var database sql.NullString
			_ = s.db.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database) // for the text alone
			return fmt.Errorf("there is no table %s in the database %s, or the user has no right on it: create it with Store.Migrate, with migrate=true in the URL, "+
				"or by schema/v1.sql of this package, or GRANT SELECT, INSERT, UPDATE, DELETE on it",
				s.table, database.String)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// A column is what information_schema says of one.
type column struct {
	name, kind string
	optional   bool // an insert that does not name it works
}

// wanted are the columns of Schema.
var wanted = func() (all []column) {
	define := regexp.MustCompile(`(?m)^  ([a-z_]+) +([A-Z]+(?:\(\d+\))?(?: UNSIGNED)?) +NOT NULL`)
	for _, m := range define.FindAllStringSubmatch(Schema, -1) {
		all = append(all, column{name: m[1], kind: strings.ToLower(m[2])})
	}
	return all
}()

// compare holds the table against Schema.
func (s *Store) compare(ctx context.Context) error {
	var comment string
	err := s.db.QueryRowContext(ctx, "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", s.table).Scan(&comment)
	if err != nil {
		return err
	}
	if _, version, ok := strings.Cut(comment, "rmqdedup state table, format "); ok {
		if n, err := strconv.Atoi(version); err != nil || n != format {
			return fmt.Errorf("the table %s has format %s, and this release knows format %d: a newer release has made it", s.table, version, format)
		}
	}
	have, err := s.columns(ctx)
	if err != nil {
		return err
	}
	var problems []string
	for _, w := range wanted {
		switch h, ok := have[w.name]; {
		case !ok:
			problems = append(problems, fmt.Sprintf("the column %s (%s) is missing", w.name, w.kind))
		case !fits(h.kind, w.kind):
			problems = append(problems, fmt.Sprintf("the column %s is %s and is to be %s", w.name, h.kind, w.kind))
		}
		delete(have, w.name)
	}
	for _, h := range have {
		if !h.optional {
			problems = append(problems, fmt.Sprintf("the column %s is not the store's and has no default, so that no claim could be inserted", h.name))
		}
	}
	indexes, err := s.indexes(ctx)
	if err != nil {
		return err
	}
	problems = append(problems, indexes...)
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("the table %s is not as schema/v1.sql of this package makes it: %s", s.table, strings.Join(problems, "; "))
}

func (s *Store) columns(ctx context.Context) (map[string]column, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT IS NOT NULL OR EXTRA LIKE '%GENERATED%' "+
		"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", s.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := make(map[string]column)
	for rows.Next() {
		var c column
		var nullable string
		if err := rows.Scan(&c.name, &c.kind, &nullable, &c.optional); err != nil {
			return nil, err
		}
		c.optional = c.optional || nullable == "YES"
		c.name, c.kind = strings.ToLower(c.name), strings.ToLower(c.kind)
		have[c.name] = c
	}
	return have, rows.Err()
}

var width = regexp.MustCompile(`^((?:tiny|big)?int)\(\d+\)`)

// fits says whether a column's type will do. Widths of integers are for display, and a longer VARBINARY is no harm.
func fits(have, want string) bool {
	have = width.ReplaceAllString(have, "$1")
	var h, w int
	if n, _ := fmt.Sscanf(have+" "+want, "varbinary(%d) varbinary(%d)", &h, &w); n == 2 {
		return h >= w
	}
	return have == want
}

// indexes returns what is wrong with the table's indexes.
func (s *Store) indexes(ctx context.Context) (problems []string, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT INDEX_NAME, NON_UNIQUE, GROUP_CONCAT(LOWER(COALESCE(COLUMN_NAME, '(an expression)')) ORDER BY SEQ_IN_INDEX) "+
		"FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ? GROUP BY INDEX_NAME, NON_UNIQUE", s.table)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	missing := map[string]string{"primary": "digest", "sweep": "status,expires_at"}
	for rows.Next() {
		var name, of string
		var nonUnique int
		if err := rows.Scan(&name, &nonUnique, &of); err != nil {
			return nil, err
		}
		name = strings.ToLower(name)
		want, ours := missing[name]
		switch {
		case ours && of == want:
			delete(missing, name)
		case !ours && nonUnique == 0:
			problems = append(problems, fmt.Sprintf("the unique index %s (%s) is not the store's, and would take two keys for one", name, of))
		}
	}
	for name, of := range missing {
		if name == "primary" {
			problems = append(problems, "the primary key is to be ("+of+") alone")
		} else {
			problems = append(problems, fmt.Sprintf("the index %s (%s) is missing", name, of))
		}
	}
	return problems, rows.Err()
}

// rehearse runs one statement of each kind that changes nothing, to see whether the user may.
func (s *Store) rehearse(ctx context.Context) error {
	table := quote(s.table)
	var problems []error
	for _, text := range []string{
		"INSERT INTO " + table + " (" + columns + ") SELECT " + columns + " FROM " + table + " WHERE digest = X'00' AND 1 = 0",
		"UPDATE " + table + " SET attempt = attempt WHERE digest = X'00'",
		"DELETE FROM " + table + " WHERE digest = X'00'",
	} {
		err := s.try(ctx, func() error {
			_, err := s.db.ExecContext(ctx, text)
			return err
		})
		if err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}
