package aws

import (
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The entries of the Secret, in the spellings of MCM's driver. The first that
// is there counts.
var (
	keyIDEntries  = []string{"providerAccessKeyId", "accessKeyID"}
	keyEntries    = []string{"providerSecretAccessKey", "secretAccessKey"}
	tokenEntries  = []string{"workloadIdentityTokenFile"}
	roleEntries   = []string{"roleARN"}
	sessionPrefix = "cluster-api-provider-mcm"
)

// login is the credentials of a caller.
type login struct{ keyID, key, tokenFile, role string }

// loginOf returns the credentials without white space around them.
func loginOf(creds cloud.Credentials) login {
	first := func(entries []string) string {
		for _, entry := range entries {
			if v, there := creds[entry]; there {
				return strings.TrimSpace(string(v))
			}
		}
		return ""
	}
	return login{first(keyIDEntries), first(keyEntries), first(tokenEntries), first(roleEntries)}
}

// static reports whether there is an access key, which goes before a web identity.
func (l login) static() bool { return l.keyID != "" && l.key != "" }

// none reports whether the Secret has no credentials at all.
func (l login) none() bool { return l == login{} }

// problems names what is missing, by field.
func (l login) problems(ambient bool) []cloud.Problem {
	identity := l.keyID == "" && l.key == "" && (l.tokenFile != "" || l.role != "")
	if l.static() || l.none() && ambient {
		return nil
	}
	var problems []cloud.Problem
	missing := func(entry, value, what string) {
		if value == "" {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: "secret." + entry,
				Message: "is missing; put " + what + " there",
			})
		}
	}
	if identity {
		missing(roleEntries[0], l.role, "the ARN of the role that the token is for")
		missing(tokenEntries[0], l.tokenFile, "the path of the web identity token, or give an access key instead")
		return problems
	}
	missing(keyIDEntries[0], l.keyID, "the id of the access key")
	missing(keyEntries[0], l.key, "the secret access key")
	return problems
}
