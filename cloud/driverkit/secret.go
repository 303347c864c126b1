package driverkit

import (
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Secret reads the entries of credentials and collects what is wrong with them, by field
// as "secret.password". It never quotes a value.
type Secret struct {
	Credentials cloud.Credentials
	Problems    []cloud.Problem
}

// First returns the first of the entries that is there, without the white space that
// editors and encoders leave around it; empty if there is none.
func (s *Secret) First(entries ...string) string {
	for _, entry := range entries {
		if value, there := s.Credentials[entry]; there {
			return strings.TrimSpace(string(value))
		}
	}
	return ""
}

// Password returns an entry without a line end. Other white space may be part of it.
func (s *Secret) Password(entry string) string {
	return strings.TrimRight(string(s.Credentials[entry]), "\r\n")
}

// Require adds a problem if a value of that entry is empty; what says what to put there.
func (s *Secret) Require(entry, value, what string) {
	if value == "" {
		s.Bad(entry, "is missing; put "+what+" there")
	}
}

// Bad adds a problem with an entry.
func (s *Secret) Bad(entry, message string) {
	s.Problems = append(s.Problems, cloud.Problem{Severity: cloud.BlocksAll, Field: "secret." + entry, Message: message})
}
