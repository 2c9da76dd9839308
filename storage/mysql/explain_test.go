package mysql_test

import (
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/rmqdedup/rmqdedup-go/storage/mysql"
)

// No statement scans the table, whatever the number of its keys: each goes by the primary key, and those of the janitor that look
// for rows by the index on status and expiry, without sorting.
func TestExplain(t *testing.T) {
	rows := 100_000
	if long {
		rows = 1_000_000
	}
	onEach(t, func(t *testing.T, server string) {
		tb := newTable(t, server, byURL())
		fillRows(t, tb, rows, "1 + n % 2", "IF(n % 3 = 0, 1 + n, UNIX_TIMESTAMP() * 1000 + 86400000 + n)")
		tb.exec(t, "ANALYZE TABLE `"+tb.name+"`")
		s := open(t, withOptions(server, "table="+tb.name))
		for _, keys := range []int{1, 2, 64} {
			all, err := s.Statements(t.Context(), keys)
			if err != nil || len(all) < 15 {
				t.Fatalf("%d statements, error %v", len(all), err)
			}
			for _, st := range all {
				explain(t, tb.admin, st, keys)
			}
		}
	})
}

func explain(t *testing.T, db *sql.DB, st mysql.Statement, keys int) {
	t.Helper()
	if strings.HasPrefix(st.Text, "INSERT") {
		return // EXPLAIN has nothing to say of it: it goes by the primary key, which is the only unique one
	}
	text := strings.Replace(st.Text, "s.expires_at = ?", "s.expires_at = 5", 1)
	if st.Name == "list" {
		text = strings.Replace(text, "digest > ? AND digest <= ?", "digest > REPEAT('0', 32) AND digest <= REPEAT('x', 32)", 1)
	}
	for n := 0; strings.Contains(text, "?"); n++ {
		value := fmt.Sprintf("UNHEX(SHA2('row%d', 256))", n)
		if strings.Count(text, "?") == 1 && (strings.HasSuffix(text, "LIMIT ?") || strings.HasSuffix(text, "OFFSET ?")) {
			value = "200"
		}
		text = strings.Replace(text, "?", value, 1)
	}
	rows, err := db.Query("EXPLAIN " + explainFormat(db) + text)
	if err != nil {
		t.Errorf("%s for %d keys: %v\n%s", st.Name, keys, err, text)
		return
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for ; rows.Next(); lines++ {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		plan := make(map[string]string)
		for i, c := range columns {
			plan[strings.ToLower(c)] = values[i].String
		}
		index := "PRIMARY"
		if st.Name == "expired" || st.Name == "past_retention" {
			index = "sweep"
		}
		if strings.Contains(plan["extra"], "const table") {
			continue // it has looked up the one row, and that is another's
		}
		most := keys
		if index == "sweep" || st.Name == "list" || st.Name == "page_end" {
			most = 1 << 30 // as many as there are to be found, up to the limit
		}
		if n, err := strconv.Atoi(plan["rows"]); err != nil || n > most {
			t.Errorf("%s for %d keys looks at %s rows", st.Name, keys, plan["rows"])
		}
		if plan["key"] != index || plan["type"] == "ALL" || plan["type"] == "index" || strings.Contains(plan["extra"], "filesort") {
			t.Errorf("%s for %d keys: %v", st.Name, keys, plan)
		}
	}
	if err := rows.Err(); err != nil || lines != 1 {
		t.Errorf("%s for %d keys: %d lines, error %v", st.Name, keys, lines, err)
	}
}

// explainFormat is what asks for a table: MySQL's default is a tree.
func explainFormat(db *sql.DB) string {
	var version string
	if err := db.QueryRow("SELECT VERSION()").Scan(&version); err == nil && !strings.Contains(version, "MariaDB") {
		return "FORMAT=TRADITIONAL "
	}
	return ""
}
