package azure

import (
	"cmp"
	"fmt"
	"os"
	"strings"

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
type login struct {
	subscription, tenant, client, secret, tokenFile string

	ambient bool // the process's environment names the token's file, and not the Secret
}

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

// loginOf returns what the Secret says, and which entries are missing. Ambient files let one
// without a client stand for that of the process.
func loginOf(creds cloud.Credentials, files driverkit.TokenFiles) (login, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	l := login{
		subscription: first(s, subscriptionEntry, oldSubscriptionEntry), tenant: first(s, tenantEntry, oldTenantEntry),
		client: first(s, clientEntry, oldClientEntry), secret: first(s, secretEntry, oldSecretEntry),
		tokenFile: s.First(tokenEntry),
	}
	s.Require(subscriptionEntry, l.subscription, "the id of the subscription")
	if files.Ambient && l.client == "" && l.secret == "" && l.tokenFile == "" {
		l.client, l.tokenFile, l.ambient = os.Getenv(clientVariable), os.Getenv(tokenVariable), true
		l.tenant = cmp.Or(l.tenant, os.Getenv(tenantVariable))
	} else if l.tokenFile != "" && l.secret == "" {
		if problem := files.Problem(l.tokenFile); problem != "" {
			s.Bad(tokenEntry, problem)
		}
	}
	l.require(&s)
	return l, s.Problems
}

// token reads the token, again each time: it is renewed.
func (l login) token(files driverkit.TokenFiles) (string, error) {
	if !l.ambient {
		token, err := files.Read(tokenEntry, l.tokenFile)
		return string(token), err
	}
	token, err := os.ReadFile(l.tokenFile)
	if err != nil {
		return "", fmt.Errorf("the token of %s cannot be read: %w; mount it there", tokenVariable, driverkit.Innermost(err))
	}
	return strings.TrimSpace(string(token)), nil
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
