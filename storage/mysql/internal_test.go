package mysql

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
)

// A statement that the server gave up on for the sake of another is tried again, a bounded number of times, with pauses that the
// context ends.
func TestTriesAgain(t *testing.T) {
	deadlock := &mysqldriver.MySQLError{Number: errDeadlock}
	for _, tt := range []struct {
		name     string
		fails    int
		with     error
		tries    int
		succeeds bool
	}{
		{"twice", 2, deadlock, 3, true},
		{"to the last try", maxTries - 1, deadlock, maxTries, true},
		{"for ever", 1000, deadlock, maxTries, false},
		{"a lock time-out, which has waited already", 1, &mysqldriver.MySQLError{Number: errLockWait}, 1, false},
		{"something else", 1, errors.New("else"), 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				begin := time.Now()
				err := new(server).try(t.Context(), func() error {
					if tries++; tries <= tt.fails {
						return tt.with
					}
					return nil
				})
				if tries != tt.tries || (err == nil) != tt.succeeds || err != nil && !errors.Is(err, tt.with) {
					t.Errorf("%d tries, error %v", tries, err)
				}
				if paused := time.Since(begin) > 0; paused != (tries > 1) {
					t.Errorf("%d tries took %v", tries, time.Since(begin))
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), minBackoff/2)
		defer cancel()
		begin := time.Now()
		err := new(server).try(ctx, func() error { return deadlock })
		if took := time.Since(begin); !errors.Is(err, deadlock) || took != minBackoff/2 {
			t.Errorf("after %v, error %v", took, err)
		}
	})
}

func TestDialect(t *testing.T) {
	for version, want := range map[string]dialect{
		"9.7.0": rowAlias, "8.0.19": rowAlias, "8.0.36-28": rowAlias, "8.4.3-commercial": rowAlias, "8.0.18": valuesFunction,
		"5.7.44-log": valuesFunction, "10.11.14-MariaDB-0+deb12u2": valuesFunction, "5.5.5-10.6.12-MariaDB": valuesFunction,
		"8.0.11-TiDB-v8.5.0": valuesFunction, "8.0.30-Vitess": valuesFunction, "": valuesFunction,
	} {
		if got := dialectOf(version); got != want {
			t.Errorf("%q: %d, want %d", version, got, want)
		}
	}
}

// Every file is a statement, and every statement can be rendered.
func TestStatementFiles(t *testing.T) {
	files, err := statementFiles.ReadDir("statements")
	if err != nil || len(files) != len(statements) {
		t.Errorf("%d files for %d statements, error %v", len(files), len(statements), err)
	}
}

// What each statement looks like for one key and for several, and that it has as many placeholders as the servers' own count of marks says.
func TestRender(t *testing.T) {
	for _, d := range []dialect{rowAlias, valuesFunction} {
		r := &renderer{table: "state", dialect: d}
		for _, st := range statements {
			for _, keys := range []int{1, 2, 64} {
				text := r.render(st, keys)
				if strings.ContainsAny(text, "{}\n") || strings.Contains(text, "--") || !strings.Contains(text, "`state`") {
					t.Errorf("%s for %d keys: %s", st.name, keys, text)
				}
				if (d == valuesFunction) == strings.Contains(text, "new.") && strings.Contains(st.text, "new.") {
					t.Errorf("%s for %d keys is in the wrong dialect: %s", st.name, keys, text)
				}
			}
		}
	}
}
