package output

import "fmt"

// ExitCodeError is an exit code without a failure: the command has printed what there is to know.
type ExitCodeError int

// Error is never printed.
func (e ExitCodeError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// CodedError is a failure with an exit code of its own.
type CodedError struct {
	Code int
	Err  error
}

// Error is that of the cause.
func (e *CodedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *CodedError) Unwrap() error { return e.Err }
