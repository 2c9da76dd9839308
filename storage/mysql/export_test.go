package mysql

import "context"

// Statement is one of those that the package sends: its text for so many keys on the store's server, and its name.
type Statement struct{ Name, Text string }

// Statements returns every one.
func (s *Store) Statements(ctx context.Context, keys int) (all []Statement, err error) {
	for _, st := range statements {
		text, err := s.render(ctx, st, keys)
		if err != nil {
			return nil, err
		}
		all = append(all, Statement{st.name, text})
	}
	return all, nil
}
