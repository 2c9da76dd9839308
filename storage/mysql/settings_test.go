package mysql_test

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"

	"github.com/rmqdedup/rmqdedup-go/rmqdedup"
	"github.com/rmqdedup/rmqdedup-go/storage/storagetest"
)

// A setting is one that a user may have made for reasons of the application's. None may make a difference to the store.
type setting struct {
	name string
	dsn  string             // an option of the DSN
	gorm func(*gorm.Config) // or one of gorm's
	log  bool               // or a logger that is to stay silent
	pool bool               // or a pool that was made without gorm
}

func (s setting) String() string { return s.name }

func option(name, value string) setting {
	return setting{name: name + "=" + strings.ReplaceAll(value, "/", "_"), dsn: name + "=" + strings.NewReplacer("'", "%27", ",", "%2C", "/", "%2F").Replace(value)}
}

func config(name string, set func(*gorm.Config)) setting { return setting{name: name, gorm: set} }

// asItComes is what a setting is without being set.
func asItComes(what string) setting { return setting{name: "usual " + what} }

// isolation is in the variable that both kinds of server know.
const isolation = "isolation"

// settings are the factors of the pairwise rows below: each with its values, of which one applies at a time.
var settings = [][]setting{
	{asItComes("pool"), {name: "Conn", pool: true}},
	{asItComes("rows"), option("clientFoundRows", "true")},
	{asItComes("zone"), option("loc", "America/New_York")},
	{asItComes("times"), option("parseTime", "true")},
	{option("interpolateParams", "false"), option("interpolateParams", "true")},
	{asItComes("statements"), option("multiStatements", "true")},
	{asItComes("collation"), option("collation", "utf8mb4_general_ci"), option("collation", "latin1_swedish_ci")},
	{asItComes("mode"), option("sql_mode", "''"), option("sql_mode", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'")},
	{asItComes(isolation), option(isolation, "'READ-COMMITTED'")},
	{asItComes("errors"), config("TranslateError", func(c *gorm.Config) { c.TranslateError = true })},
	{asItComes("transactions"), config("SkipDefaultTransaction", func(c *gorm.Config) { c.SkipDefaultTransaction = true })},
	{asItComes("preparing"), config("PrepareStmt", func(c *gorm.Config) {
		c.PrepareStmt = true
		c.PrepareStmtTTL = 10 * 365 * 24 * time.Hour // with any other, gorm starts a goroutine for good
	})},
	{asItComes("names"), config("NamingStrategy", func(c *gorm.Config) {
		c.NamingStrategy = schema.NamingStrategy{TablePrefix: "t_", SingularTable: true, NoLowerCase: true, NameReplacer: strings.NewReplacer("_", "X")}
	})},
	{asItComes("logger"), {name: "Logger", log: true}},
	{asItComes("nesting"), config("DisableNestedTransaction", func(c *gorm.Config) { c.DisableNestedTransaction = true })},
}

// pairwise has for any two values of different factors a row with both: in each row, by number, the value of each factor.
var pairwise = []string{
	"000000000000000",
	"111111101111111",
	"000100210111011",
	"111011221000100",
	"100010120001011",
	"010101011110100",
	"101100010000111",
	"011000121111000",
	"000011010011001",
	"000100021100010",
	"010000110000000",
	"000000200000000",
}

// The rows are made by hand or by a program; this says whether they are what they are said to be.
func TestPairwiseRows(t *testing.T) {
	seen := make(map[string]bool)
	pair := func(a, x, b, y int) string { return fmt.Sprint(a, x, b, y) }
	for _, row := range pairwise {
		values := rowOf(t, row)
		for a := range values {
			for b := range a {
				seen[pair(a, values[a], b, values[b])] = true
			}
		}
	}
	for a := range settings {
		for b := range a {
			for x := range settings[a] {
				for y := range settings[b] {
					if !seen[pair(a, x, b, y)] {
						t.Errorf("no row has both %v and %v", settings[a][x], settings[b][y])
					}
				}
			}
		}
	}
	if len(pairwise) > 14 {
		t.Errorf("%d rows; want at most 14", len(pairwise))
	}
}

func rowOf(t *testing.T, row string) []int {
	t.Helper()
	if len(row) != len(settings) {
		t.Fatalf("row %s has %d values; want %d", row, len(row), len(settings))
	}
	values := make([]int, len(row))
	for i, c := range []byte(row) {
		values[i] = int(c - '0')
		if values[i] >= len(settings[i]) {
			t.Fatalf("row %s has value %d of %v", row, values[i], settings[i])
		}
	}
	return values
}

func settingsOf(t *testing.T, row string) (all []setting) {
	for i, v := range rowOf(t, row) {
		all = append(all, settings[i][v])
	}
	return all
}

var long = os.Getenv("RMQDEDUP_LONG") == "1"

// A few of the rows, by the quicker rules of the suite.
func TestSomeSettings(t *testing.T) {
	onEach(t, func(t *testing.T, server string) {
		t.Run("URL", func(t *testing.T) {
			quickly(t, server, byURL(optionsFor(t, server, []setting{
				option("clientFoundRows", "true"), option("loc", "America/New_York"), option("interpolateParams", "false"), option("multiStatements", "true"),
				option("sql_mode", "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"), option(isolation, "'READ-COMMITTED'"), option("collation", "latin1_swedish_ci"),
			})...))
		})
		for _, row := range []string{pairwise[1], pairwise[3], pairwise[5]} {
			t.Run(row, func(t *testing.T) { quickly(t, server, byGorm(settingsOf(t, row))) })
		}
	})
}

// Each setting alone: by the whole suite in a pool of the user's, whose connections are as the settings make them; and in a URL, where few of
// them reach the store's own connections, by the quicker rules.
func TestEachSetting(t *testing.T) {
	onlyLong(t)
	onEach(t, func(t *testing.T, server string) {
		for _, factor := range settings {
			for _, s := range factor {
				if s.dsn != "" {
					t.Run("URL "+s.name, func(t *testing.T) {
						quickly(t, server, byURL(optionsFor(t, server, []setting{s})...))
					})
				}
				if s.dsn != "" || s.gorm != nil || s.log || s.pool {
					t.Run("pool "+s.name, func(t *testing.T) {
						storagetest.Run(t, gormSuite(server, byGorm([]setting{s, {name: "Conn", pool: true}})))
					})
				}
			}
		}
	})
}

func TestPairsOfSettings(t *testing.T) {
	onlyLong(t)
	onEach(t, func(t *testing.T, server string) {
		for _, row := range pairwise {
			t.Run(row, func(t *testing.T) { storagetest.Run(t, gormSuite(server, byGorm(settingsOf(t, row)))) })
		}
	})
}

func onlyLong(t *testing.T) {
	t.Helper()
	if !long {
		t.Skip("it takes minutes: RMQDEDUP_LONG=1, or make test-long, runs it")
	}
}

// gormSuite is the suite for stores on a *gorm.DB, which cannot be made inside a bubble: its pool has goroutines outside.
func gormSuite(server string, open opener) storagetest.Config {
	c := suite(server, open)
	c.ServerClock = false
	return c
}

// quickly runs the rules that take no time, but are the ones that settings could break.
func quickly(t *testing.T, server string, open opener) {
	t.Helper()
	slow := []string{"many_keys_a_call", "real_time", "racing_claimants", "linearizability", "neighbouring_keys", "several_janitors", "listing_many", "ending_contexts"}
	c := gormSuite(server, open)
	newTable := c.NewTable
	c.NewTable = func(t testing.TB) storagetest.Table {
		t.Helper()
		if slices.Contains(slow, path.Base(t.Name())) {
			t.Skip("it is slow, and no setting is known to matter to it; make test-long runs it in a pool with each")
		}
		return newTable(t)
	}
	storagetest.Run(t, c)
}

// byGorm opens by a *gorm.DB with those settings.
func byGorm(all []setting) opener {
	return func(t testing.TB, server, table string) rmqdedup.Store {
		t.Helper()
		options := optionsFor(t, server, all)
		dialector := gormmysql.Open(dsnOf(server, options...))
		var set []func(*gorm.Config)
		for _, s := range all {
			if s.pool {
				dialector = pooled(t, server, options...)
			}
			if s.gorm != nil {
				set = append(set, s.gorm)
			}
			if s.log {
				set = append(set, func(c *gorm.Config) { c.Logger = listener{t} })
			}
		}
		return newStore(t, newDB(t, dialector, set...), table)
	}
}

// optionsFor returns the DSN's options for a server.
func optionsFor(t testing.TB, server string, all []setting) (options []string) {
	t.Helper()
	for _, s := range all {
		name, value, _ := strings.Cut(s.dsn, "=")
		switch {
		case name == "":
			continue
		case name == isolation && isMariaDB(t, server):
			name = "tx_isolation" // the other name came with 11.1
		case name == isolation:
			name = "transaction_isolation"
		}
		options = append(options, name+"="+value)
	}
	return options
}

func isMariaDB(t testing.TB, server string) bool {
	t.Helper()
	var version string
	if err := newAdmin(t, server).QueryRow("SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	return strings.Contains(version, "MariaDB")
}
