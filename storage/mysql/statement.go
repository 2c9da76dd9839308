package mysql

import (
	"embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

//go:embed statements/*.sql
var statementFiles embed.FS

// A statement is one of the files in statements/, with these marks:
//
//	{table}          the table's name, quoted
//	{now}            the server's time in milliseconds since 1970, as it was when the statement began
//	{columns}        those of a row, in the order of scan
//	{nobody}         the owner that nobody is
//	{rows}(…){end}   once for each key
//	{keys}           a placeholder for each key
//	{of key}         a value that belongs to the row's key: a placeholder for one key, two for each of several
//	{stamp}          of several keys: the origin becomes a placeholder
//	{as new}, new.x  the value that was to be inserted, in the server's dialect
type statement struct {
	name string
	text string
}

var (
	claimSQL         = read("claim")
	acquireSQL       = read("acquire")
	takeOverSQL      = read("take_over")
	completeSQL      = read("complete")
	completeLostSQL  = read("complete_lost")
	renewSQL         = read("renew")
	releaseSQL       = read("release")
	abandonSQL       = read("abandon")
	readSQL          = read("read")
	unlockedSQL      = read("unlocked")
	forgetSQL        = read("forget")
	expiredSQL       = read("expired")
	clearSQL         = read("clear")
	pastRetentionSQL = read("past_retention")
	purgeSQL         = read("purge")
	pageEndSQL       = read("page_end")
	listSQL          = read("list")
)

// statements are all of them, for the test that has the server explain each.
var statements []*statement

// read returns a statement without its comments and line ends.
func read(name string) *statement {
	file, err := statementFiles.ReadFile("statements/" + name + ".sql")
	if err != nil {
		panic(err) // the build is broken
	}
	var words []string
	for line := range strings.Lines(string(file)) {
		if code, _, _ := strings.Cut(line, "--"); strings.TrimSpace(code) != "" {
			words = append(words, strings.Fields(code)...)
		}
	}
	s := &statement{name: name, text: strings.Join(words, " ")}
	statements = append(statements, s)
	return s
}

// A dialect is how a server names the value that was to be inserted, in what follows ON DUPLICATE KEY UPDATE.
type dialect int8

const (
	// rowAlias is VALUES (…) AS new … new.x. MySQL has it from 8.0.19 on, and warns of the other from 8.0.20 on.
	rowAlias dialect = iota + 1
	// valuesFunction is VALUES(x): MariaDB, and what speaks the protocol without being MySQL.
	valuesFunction
)

const (
	// The time zone and the daylight saving of the connection do not matter to it, nor does a client's clock.
	nowSQL    = `(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)`
	nobodySQL = `X'00000000000000000000000000000000'`
)

var (
	rowsMark = regexp.MustCompile(`\{rows\}(.*)\{end\}`)
	newMark  = regexp.MustCompile(`\bnew\.(\w+)`)
)

// A renderer turns statements into SQL for one table on one kind of server, and keeps what it made.
type renderer struct {
	table    string
	dialect  dialect
	prepares bool     // statements of several keys too
	room     int      // for the keys of a statement, in bytes; not above zero where there is none but for one key
	cache    sync.Map // of rendering to string
}

type rendering struct {
	*statement
	keys int
}

// render returns a statement for so many keys.
func (r *renderer) render(s *statement, keys int) string {
	if text, ok := r.cache.Load(rendering{s, keys}); ok {
		return text.(string)
	}
	text := rowsMark.ReplaceAllStringFunc(s.text, func(marked string) string {
		return list(rowsMark.FindStringSubmatch(marked)[1], keys)
	})
	as := ""
	if r.dialect == rowAlias {
		as = "AS new"
	} else {
		text = newMark.ReplaceAllString(text, "VALUES($1)")
	}
	ofKey, stamp := "?", ""
	if keys > 1 {
		stamp = ", origin = ?"
		ofKey = "CASE digest" + strings.Repeat(" WHEN ? THEN ?", keys) + " END"
	}
	text = strings.NewReplacer(
		"{table}", quote(r.table), "{now}", nowSQL, "{columns}", columns, "{nobody}", nobodySQL, "{as new}", as,
		"{keys}", list("?", keys), "{of key}", ofKey, "{stamp}", stamp,
	).Replace(text)
	if keys <= maxKeys { // longer ones are the janitor's, of any length
		r.cache.Store(rendering{s, keys}, text)
	}
	return text
}

// sharing is how many of so many keys should share a statement that is prepared, so that there are few of these: all, or almost all.
func sharing(keys int) int {
	switch {
	case keys <= 16:
		return keys
	case keys <= 32:
		return keys &^ 3
	}
	return min(keys, maxKeys) &^ 7
}

func list(element string, times int) string {
	return strings.TrimSuffix(strings.Repeat(element+", ", times), ", ")
}

// quote makes a name of what validateTable has let pass.
func quote(table string) string { return "`" + table + "`" }

// maxTable leaves room in the 64 characters that a name may have (MySQL manual, section 11.2.1).
const maxTable = 64

func validateTable(name string) error {
	if name == "" || len(name) > maxTable {
		return fmt.Errorf("table is %.80q: a name has 1 to %d characters", name, maxTable)
	}
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_') {
			return fmt.Errorf("table is %q: a name has letters, digits and _ only (a database goes into the URL, not before the table)", name)
		}
	}
	return nil
}
