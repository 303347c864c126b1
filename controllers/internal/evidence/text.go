package evidence

import (
	"fmt"

	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
)

// Mark begins what Suffix adds.
const Mark = "; console: "

// Suffix is what the message of a condition adds about a console. It has no word of the guest.
func Suffix(f console.Failure) string {
	summary, _ := console.Describe(f.Cause)
	return Mark + summary
}

// Message is that of an Event about a console. It has no word of the guest.
func Message(f console.Failure) string {
	summary, remedy := console.Describe(f.Cause)
	return fmt.Sprintf("The node did not join, and the console of VM %s shows: %s; %s", f.ProviderID, summary, remedy)
}
