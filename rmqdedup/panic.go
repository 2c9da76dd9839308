package rmqdedup

import (
	"fmt"
	"runtime/debug"
)

// A PanicError is a panic of a handler or key function, caught and told as an error.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the goroutine's stack, as runtime/debug gives it
}

func newPanicError(value any) *PanicError {
	return &PanicError{Value: value, Stack: debug.Stack()}
}

// Error returns the panic's value and, behind it, the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
