package memory

import "fmt"

// Len returns how many records the store holds, those past their time included.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// Check says what is wrong with the store's queues: each record must be in the one for its state, know its place, and
// go no earlier than the one above it.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for done, q := range map[bool]queue{false: s.claims, true: s.done} {
		for i, r := range q {
			switch {
			case r.done != done:
				return fmt.Errorf("record %d, DONE: %t, is in the other queue", i, r.done)
			case r.index != i:
				return fmt.Errorf("record %d takes its place to be %d", i, r.index)
			case i > 0 && q[(i-1)/2].gone > r.gone:
				return fmt.Errorf("record %d goes before the one above it", i)
			case s.records[r.key.Digest()] != r:
				return fmt.Errorf("record %d is not the table's", i)
			}
		}
	}
	if queued := len(s.claims) + len(s.done); queued != len(s.records) {
		return fmt.Errorf("%d records are queued of %d", queued, len(s.records))
	}
	return nil
}
