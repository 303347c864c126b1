package azure

import (
	"cmp"
	"os"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The entries of the Secret. Of two spellings the first with a value counts; tokenEntry is the path
// of a federated token.
const (
	subscriptionEntry, oldSubscriptionEntry = "subscriptionID", "azureSubscriptionId"
	tenantEntry, oldTenantEntry             = "tenantID", "azureTenantId"
	clientEntry, oldClientEntry             = "clientID", "azureClientId"
	secretEntry, oldSecretEntry             = "clientSecret", "azureClientSecret"
	tokenEntry                              = "workloadIdentityTokenFile"
)

var secretKeys = cloud.SecretKeys{
	Credential: []string{secretEntry, oldSecretEntry},
	Public: []string{
		subscriptionEntry, oldSubscriptionEntry, tenantEntry, oldTenantEntry, clientEntry, oldClientEntry, tokenEntry,
	},
}

// The variables that Azure's workload identity webhook sets.
const (
	clientVariable = "AZURE_CLIENT_ID"
	tenantVariable = "AZURE_TENANT_ID"
	tokenVariable  = "AZURE_FEDERATED_TOKEN_FILE"
)

// login is the credentials of a caller.
type login struct{ subscription, tenant, client, secret, tokenFile string }

// first is the first of the entries with a value: MCM's driver lets an empty one count only
// to fail with it.
func first(s driverkit.Secret, entries ...string) string {
	for _, entry := range entries {
		if value := s.First(entry); value != "" {
			return value
		}
	}
	return ""
}

// loginOf returns what the Secret says, and which entries are missing. Ambient lets one
// without a client stand for that of the process.
func loginOf(creds cloud.Credentials, ambient bool) (login, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	l := login{
		first(s, subscriptionEntry, oldSubscriptionEntry), first(s, tenantEntry, oldTenantEntry),
		first(s, clientEntry, oldClientEntry), first(s, secretEntry, oldSecretEntry), s.First(tokenEntry),
	}
	s.Require(subscriptionEntry, l.subscription, "the id of the subscription")
	if ambient && l.client == "" && l.secret == "" && l.tokenFile == "" {
		l.client, l.tokenFile = os.Getenv(clientVariable), os.Getenv(tokenVariable)
		l.tenant = cmp.Or(l.tenant, os.Getenv(tenantVariable))
	} else if !ambient && isOwnToken(l.tokenFile) {
		s.Bad(tokenEntry, "is the identity of the manager itself; name another token or give a clientSecret, or start "+
			"the manager with --ambient-credentials")
	}
	l.require(&s)
	return l, s.Problems
}

// require adds what of the credentials is missing.
func (l login) require(s *driverkit.Secret) {
	s.Require(tenantEntry, l.tenant, "the id of the tenant")
	s.Require(clientEntry, l.client, "the id of the application")
	switch {
	case l.secret == "" && l.tokenFile == "":
		s.Require(secretEntry, "", "the secret of the application, or a "+tokenEntry)
	case l.secret != "" && l.tokenFile != "":
		s.Bad(tokenEntry, "is there beside a clientSecret; remove one of them")
	}
}

// isOwnToken reports whether a path leads to a token of the manager itself, by which whoever
// writes Secrets would act as the manager.
func isOwnToken(path string) bool {
	asked, err := os.Stat(path) //nolint:gosec // it is only compared with the manager's own
	if err != nil {
		return false // there is none to read
	}
	for _, own := range []string{os.Getenv(tokenVariable), "/var/run/secrets/kubernetes.io/serviceaccount/token"} {
		found, err := os.Stat(own) //nolint:gosec // the operator's own variable
		if err == nil && os.SameFile(asked, found) {
			return true
		}
	}
	return false
}
