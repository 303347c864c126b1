package aws

import (
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

// loginOf returns what the Secret says, and which entries are missing. A token file goes before an access key, as
// with MCM's driver. Ambient files let one without credentials stand for those of the process.
func loginOf(creds cloud.Credentials, files driverkit.TokenFiles) (login, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	l := login{
		s.First(keyIDEntry, oldKeyIDEntry), s.First(keyEntry, oldKeyEntry), s.First(tokenEntry), s.First(roleEntry),
	}
	if l.tokenFile != "" {
		l.keyID, l.key = "", ""
	}
	switch {
	case l.static() || l.none() && files.Ambient:
	case l.keyID == "" && l.key == "" && !l.none():
		s.Require(roleEntry, l.role, "the ARN of the role that the token is for")
		s.Require(tokenEntry, l.tokenFile, "the path of the web identity token, or give an access key instead")
		if problem := files.Problem(l.tokenFile); l.tokenFile != "" && problem != "" {
			s.Bad(tokenEntry, problem)
		}
	default:
		s.Require(keyIDEntry, l.keyID, "the id of the access key")
		s.Require(keyEntry, l.key, "the secret access key")
	}
	return l, s.Problems
}

// static reports whether the access key counts.
func (l login) static() bool { return l.keyID != "" && l.key != "" }

// none reports whether the Secret has no credentials at all.
func (l login) none() bool { return l == login{} }
