package gcp

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// The entries of a Secret that may have the credentials; the first that is there counts. The
// third is for workload identity.
const (
	keyEntry, oldKeyEntry, federationEntry = "serviceAccountJSON", "serviceaccount.json", "credentialsConfig"
	projectEntry                           = "projectID"
)

var secretKeys = cloud.SecretKeys{
	Credential: []string{keyEntry, oldKeyEntry, federationEntry}, Public: []string{projectEntry},
}

// What credentials for workload identity may name: an address or a file that a Secret could choose
// freely would let its author read files of the manager, or have it call whom they like.
const (
	stsURL           = "https://sts.googleapis.com/v1/token"
	jwtType          = "urn:ietf:params:oauth:token-type:jwt"
	federationFile   = "/var/run/secrets/gardener.cloud/workload-identity/token"
	defaultTokenURL  = "https://oauth2.googleapis.com/token" //nolint:gosec // an address, and no credential
	defaultUniverse  = "googleapis.com"
	serviceAccount   = "service_account"
	externalAccount  = "external_account"
	impersonationURL = `https://iamcredentials\.googleapis\.com/v1/projects/-/serviceAccounts/[^/?#]+:generateAccessToken`
)

var impersonation = regexp.MustCompile("^" + impersonationURL + "$")

// keyFile is a service account's key, or the configuration of workload identity.
type keyFile struct {
	Type         string `json:"type"`
	ProjectID    string `json:"project_id"`
	Universe     string `json:"universe_domain"`
	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`

	Audience         string `json:"audience"`
	SubjectTokenType string `json:"subject_token_type"`
	TokenURL         string `json:"token_url"`
	Impersonation    string `json:"service_account_impersonation_url"`
	Source           struct {
		File string `json:"file"`
	} `json:"credential_source"`
}

// keyFields are what a service account's key may have.
var keyFields = strings.Fields("type project_id client_email universe_domain auth_uri auth_provider_x509_cert_url " +
	"client_x509_cert_url client_id private_key_id private_key token_uri")

// SecretsIn returns the private key of a service account and its id. The rest of the JSON only names
// something, as all of a configuration of workload identity does.
func (judge) SecretsIn(_ string, value []byte) (secrets []string, ok bool) {
	var file keyFile
	if json.Unmarshal(value, &file) != nil || file.Type != serviceAccount && file.Type != externalAccount {
		return nil, false
	}
	return []string{file.PrivateKey, file.PrivateKeyID}, true
}

// identity is who the calls are made as, and in which project.
type identity struct {
	project string
	file    keyFile
	key     *rsa.PrivateKey // nil for workload identity
}

// readSecret reads the credentials. No problem quotes a value.
func readSecret(creds cloud.Credentials) (identity, []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	entry := keyEntry
	for _, other := range []string{federationEntry, oldKeyEntry, keyEntry} {
		if _, there := creds[other]; there {
			entry = other
		}
	}
	text := s.First(entry)
	s.Require(entry, text, "the JSON key of a service account, or in "+federationEntry+" that of workload identity")
	if text == "" {
		return identity{}, s.Problems
	}
	var who identity
	if json.Unmarshal([]byte(text), &who.file) != nil {
		s.Bad(entry, "is no JSON object; put the file there as Google Cloud wrote it")
		return identity{}, s.Problems
	}
	who.read(&s, entry, text)
	return who, s.Problems
}

// read checks what the entry says.
func (who *identity) read(s *driverkit.Secret, entry, text string) {
	switch who.file.Type {
	case serviceAccount:
		who.readKey(s, entry, text)
	case externalAccount:
		who.readFederation(s, entry)
	default:
		s.Bad(entry, "has a type that is neither "+serviceAccount+" nor "+externalAccount+"; use one of these")
	}
	if u := who.file.Universe; u != "" && u != defaultUniverse {
		s.Bad(entry, "is for another universe_domain than "+defaultUniverse+", which is not supported")
	}
	if who.project = who.file.ProjectID; who.project == "" {
		who.project = s.First(projectEntry)
	}
	s.Require(projectEntry, who.project, "the id of the project, or project_id into "+entry)
}

// readKey checks a service account's key.
func (who *identity) readKey(s *driverkit.Secret, entry, text string) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &fields) // it has been read as a key
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(keyFields, field) {
			s.Bad(entry, "has a field that no key of a service account has; put the key there as Google Cloud wrote it")
			break
		}
	}
	if who.file.TokenURI == "" {
		who.file.TokenURI = defaultTokenURL
	}
	if !strings.HasPrefix(who.file.TokenURI, "https://") {
		s.Bad(entry, "has a token_uri that does not begin with https://; use "+defaultTokenURL)
	}
	if who.file.ClientEmail == "" {
		s.Bad(entry, "has no client_email; put the whole key there")
	}
	var err error
	if who.key, err = parseKey(who.file.PrivateKey); err != nil {
		s.Bad(entry, "has a private_key that is no RSA key in PEM form; put the whole key there")
	}
}

// readFederation checks a configuration of workload identity.
func (who *identity) readFederation(s *driverkit.Secret, entry string) {
	f := who.file
	for _, rule := range []struct {
		ok   bool
		text string
	}{
		{f.TokenURL == stsURL, "token_url has to be " + stsURL},
		{f.SubjectTokenType == jwtType, "subject_token_type has to be " + jwtType},
		{f.Source.File == federationFile, "credential_source.file has to be " + federationFile},
		{f.Audience != "", "audience has to name the provider of identities"},
		{
			f.Impersonation == "" || impersonation.MatchString(f.Impersonation),
			"service_account_impersonation_url has to be that of generateAccessToken of one service account",
		},
	} {
		if !rule.ok {
			s.Bad(entry, rule.text)
		}
	}
}

// parseKey reads an RSA key, whose text no error quotes.
func parseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		if rsaKey, ok := key.(*rsa.PrivateKey); ok {
			return rsaKey, nil
		}
	}
	return x509.ParsePKCS1PrivateKey(block.Bytes)
}
