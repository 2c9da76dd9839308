package mysql

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// Schema is the statement that makes the table, of the name [DefaultTable], with comments that say what each column is: what
// [Store.Migrate] runs, and what a DBA may run instead.
//
//go:embed schema/v1.sql
var Schema string

// format is the version of the table. It stands in the table's comment.
const format = 1

// Migrate creates the table if it is not there, and does nothing otherwise. Any number of processes may call it at once. It needs the
// right to CREATE.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return fmt.Errorf("storage/mysql: migrate: %w", s.explain(ctx, err))
	}
	return nil
}

func (s *Store) migrate(parent context.Context) error {
	ctx, end, err := s.begin(parent)
	if err != nil {
		return err
	}
	defer end()
	// Not to need the right to CREATE where there is nothing to do.
	if there, err := s.tableThere(ctx); err != nil || there {
		return err
	}
	return s.try(ctx, func() error {
		_, err := s.db.ExecContext(ctx, schemaFor(s.table))
		return err
	})
}

func schemaFor(table string) string {
	return strings.Replace(withoutComments(Schema), DefaultTable, quote(table), 1)
}

var lineComment = regexp.MustCompile(`(?m)^--.*\n`)

func withoutComments(sql string) string { return lineComment.ReplaceAllString(sql, "") }

func (s *Store) tableThere(ctx context.Context) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", s.table).Scan(&n)
	return n > 0, err
}
