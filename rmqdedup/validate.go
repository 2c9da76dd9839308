package rmqdedup

import (
	"fmt"
	"time"
)

// ValidateLease says whether a store of that resolution can keep a claim of this lease and grace. It is for stores:
// the error wraps [ErrBadRequest], names both figures and goes into [Answer.Err].
func (r *Request) ValidateLease(resolution time.Duration) error {
	switch {
	case r.Lease <= 0:
		return fmt.Errorf("%w: the lease is %v; a claim needs one above zero, or it would never end", ErrBadRequest, r.Lease)
	case r.Lease < resolution:
		return fmt.Errorf("%w: the lease is %v, below the %v that this store can tell apart", ErrBadRequest, r.Lease, resolution)
	case r.Grace < 0:
		return fmt.Errorf("%w: the grace is %v; it cannot be negative", ErrBadRequest, r.Grace)
	}
	return nil
}

// ValidateRetention says whether a store of that resolution can keep DONE for the request's retention. It is for stores: the
// error wraps [ErrBadRequest], names both figures and goes into [Answer.Err].
func (r *Request) ValidateRetention(resolution time.Duration) error {
	switch {
	case r.Retention <= 0:
		return fmt.Errorf("%w: the retention is %v; DONE needs one above zero", ErrBadRequest, r.Retention)
	case r.Retention < resolution:
		return fmt.Errorf("%w: the retention is %v, below the %v that this store can tell apart", ErrBadRequest, r.Retention, resolution)
	}
	return nil
}
