package aws

import (
	"os"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The entries of the Secret. Where MCM's driver knows two spellings, the first that is
// there counts.
const (
	keyIDEntry, oldKeyIDEntry = "providerAccessKeyId", "accessKeyID"
	keyEntry, oldKeyEntry     = "providerSecretAccessKey", "secretAccessKey"
	tokenEntry, roleEntry     = "workloadIdentityTokenFile", "roleARN"

	sessionPrefix = "cluster-api-provider-mcm"
)

var secretKeys = cloud.SecretKeys{
	Credential: []string{keyEntry, oldKeyEntry},
	Public:     []string{keyIDEntry, oldKeyIDEntry, tokenEntry, roleEntry},
}

// login is the credentials of a caller.
type login struct{ keyID, key, tokenFile, role string }

// loginOf returns what the Secret says, and which entries are missing. Ambient lets one
// without credentials stand for those of the process.
func loginOf(creds cloud.Credentials, ambient bool) (login, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	l := login{
		s.First(keyIDEntry, oldKeyIDEntry), s.First(keyEntry, oldKeyEntry), s.First(tokenEntry), s.First(roleEntry),
	}
	switch {
	case l.static() || l.none() && ambient:
	case l.keyID == "" && l.key == "" && !l.none():
		s.Require(roleEntry, l.role, "the ARN of the role that the token is for")
		s.Require(tokenEntry, l.tokenFile, "the path of the web identity token, or give an access key instead")
		if !ambient && isOwnToken(l.tokenFile) {
			s.Bad(tokenEntry, "is the identity of the manager itself; name another token or give an access key, or start "+
				"the manager with --ambient-credentials")
		}
	default:
		s.Require(keyIDEntry, l.keyID, "the id of the access key")
		s.Require(keyEntry, l.key, "the secret access key")
	}
	return l, s.Problems
}

// isOwnToken reports whether a path leads to a token of the manager itself, by which whoever
// writes Secrets would act as the manager.
func isOwnToken(path string) bool {
	asked, err := os.Stat(path)
	if err != nil {
		return false // there is none to read
	}
	for _, own := range []string{
		os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
		"/var/run/secrets/kubernetes.io/serviceaccount/token",
	} {
		found, err := os.Stat(own) //nolint:gosec // the operator's own variables
		if err == nil && os.SameFile(asked, found) {
			return true
		}
	}
	return false
}

// static reports whether there is an access key, which goes before a web identity.
func (l login) static() bool { return l.keyID != "" && l.key != "" }

// none reports whether the Secret has no credentials at all.
func (l login) none() bool { return l == login{} }
