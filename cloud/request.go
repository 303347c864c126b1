package cloud

import "fmt"

// Problems returns what of the request a cloud does not take: a name outside of its limits, or more
// bytes of user data than userDataMax. Each blocks the creation. A name that is missing is a problem too.
func (r CreateRequest) Problems(names NameLimits, userDataMax int) []Problem {
	var problems []Problem
	if n := len(r.UserData); n > userDataMax {
		problems = append(problems, Problem{
			Severity: BlocksCreate, Field: "secret.userData",
			Message: fmt.Sprintf("has %d bytes and may have %d; make it shorter or compress it", n, userDataMax),
		})
	}
	if wrong := names.Problem(r.Name); wrong != "" {
		problems = append(problems, Problem{Severity: BlocksCreate, Field: "metadata.name", Message: wrong})
	}
	return problems
}
