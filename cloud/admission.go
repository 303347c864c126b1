package cloud

import "context"

// ReasonRateBudget is the reason of an error of code Throttled that no cloud has
// caused: the account keeps within its own rate, and the call waits for its turn.
const ReasonRateBudget = "RateBudget"

// An Admitter is an Account that knows some calls to be refused before they are
// prepared, because they do not fit into its rate or ask for what is sold out.
type Admitter interface {
	// Admit returns the error that Create would return without asking the cloud,
	// with its RetryAfter. Nil holds the place for a Create with the same Token
	// for a minute; to ask again takes no further place. It makes no call.
	// UserData of r is not looked at.
	Admit(ctx context.Context, r CreateRequest) error
}

// Admit asks the account whether a Create is worth preparing. An Account that is
// no Admitter admits every call.
func Admit(ctx context.Context, a Account, r CreateRequest) error {
	if admitter, ok := a.(Admitter); ok {
		return admitter.Admit(ctx, r)
	}
	return nil
}
