package cloud

import "fmt"

// Problems returns what of the request is longer than a cloud takes; lengths are in
// bytes. Each blocks the creation. A name that is missing is a problem too.
func (r CreateRequest) Problems(nameMax, userDataMax int) []Problem {
	var problems []Problem
	if n := len(r.UserData); n > userDataMax {
		problems = append(problems, Problem{
			Severity: BlocksCreate, Field: "secret.userData",
			Message: fmt.Sprintf("has %d bytes and may have %d; make it shorter or compress it", n, userDataMax),
		})
	}
	if n := len(r.Name); n == 0 || n > nameMax {
		problems = append(problems, Problem{
			Severity: BlocksCreate, Field: "metadata.name",
			Message: fmt.Sprintf("has %d characters and has to have 1 to %d", n, nameMax),
		})
	}
	return problems
}
