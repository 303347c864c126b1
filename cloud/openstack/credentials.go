package openstack

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The entries of the Secret. The first are MCM's, the last four are ours.
const (
	keyAuthURL       = "authURL"
	keyCA            = "caCert"
	keyInsecure      = "insecure"
	keyDomainName    = "domainName"
	keyDomainID      = "domainID"
	keyTenantName    = "tenantName"
	keyTenantID      = "tenantID"
	keyUserDomain    = "userDomainName"
	keyUserDomainID  = "userDomainID"
	keyUsername      = "username"
	keyPassword      = "password"
	keyAppID         = "applicationCredentialID"
	keyAppName       = "applicationCredentialName"
	keyAppSecret     = "applicationCredentialSecret"
	keyClientCert    = "clientCert"
	keyClientKey     = "clientKey"
	keyCloudsYAML    = "clouds.yaml"
	keyCloud         = "cloud"
	keyCloudsYAMLCA  = "cacert"
	keyToken         = "tokenID"
	interfaceDefault = gophercloud.AvailabilityPublic
)

var secretKeys = cloud.SecretKeys{
	Address:    []string{keyAuthURL, keyCA, keyCloudsYAMLCA, keyInsecure},
	Credential: []string{keyPassword, keyAppSecret, keyToken, keyClientKey, keyCloudsYAML},
	Public: []string{
		keyDomainName, keyDomainID, keyTenantName, keyTenantID, keyUserDomain, keyUserDomainID, keyUsername, keyAppID,
		keyAppName, keyClientCert, keyCloud,
	},
}

// login is where to log in, and as whom.
type login struct {
	authURL                string
	userID, user, password string
	userDomain, userDomID  string
	project, projectID     string
	domain, domainID       string // of the project, and of the user unless it has one of its own
	appID, appName, secret string
	token                  string
	ca, cert, key          []byte // PEM
	insecure               bool
	endpoints              gophercloud.Availability

	fingerprint string
	problems    []cloud.Problem
}

// entries reads values without the white space that editors and encoders leave
// around them.
type entries func(key string) string

// loginOf returns what the Secret says: MCM's entries, else those of a
// clouds.yaml in it, else, if ambient says so and there is nothing else, what the
// environment of the process says.
func loginOf(creds cloud.Credentials, ambient *environment) login {
	get := func(key string) string { return strings.TrimSpace(string(creds[key])) }
	l := login{endpoints: interfaceDefault, fingerprint: creds.Fingerprint()}
	switch {
	case get(keyCloudsYAML) != "":
		l.readClouds("secret."+keyCloudsYAML, []byte(get(keyCloudsYAML)), get(keyCloud), nil)
		if ca := cmp.Or(get(keyCA), get(keyCloudsYAMLCA)); ca != "" {
			l.ca = []byte(ca)
		}
	case ambient != nil && nothing(creds):
		l.readEnvironment(*ambient)
	default:
		l.readSecret(get)
	}
	l.validate()
	slices.SortStableFunc(l.problems, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) })
	return l
}

// nothing reports whether a Secret does not name whom to log in as.
func nothing(creds cloud.Credentials) bool {
	for _, key := range []string{
		keyAuthURL, keyDomainName, keyDomainID, keyTenantName, keyTenantID, keyUserDomain, keyUserDomainID, keyUsername,
		keyPassword, keyAppID, keyAppName, keyAppSecret, keyClientCert, keyClientKey, keyCA, keyInsecure, keyToken,
	} {
		if len(creds[key]) > 0 {
			return false
		}
	}
	return true
}

// readSecret takes the entries of MCM's driver, without white space around them: of passwords, too. Beside a name an
// id does not count.
func (l *login) readSecret(get entries) {
	l.authURL, l.user, l.password = get(keyAuthURL), get(keyUsername), get(keyPassword)
	l.userDomain, l.userDomID = get(keyUserDomain), get(keyUserDomainID)
	l.project, l.projectID, l.domain, l.domainID = get(
		keyTenantName), get(keyTenantID), get(keyDomainName), get(keyDomainID)
	if l.project != "" {
		l.projectID = ""
	}
	if l.domain != "" {
		l.domainID = ""
	}
	l.appID, l.appName, l.secret, l.token = get(keyAppID), get(keyAppName), get(keyAppSecret), get(keyToken)
	l.ca, l.cert, l.key = []byte(get(keyCA)), []byte(get(keyClientCert)), []byte(get(keyClientKey))
	if l.token != "" && l.secret+l.appID+l.password != "" {
		l.bad(keyToken, "cannot be set together with a password or an application credential; remove one of them")
	}
	switch v := get(keyInsecure); strings.ToLower(v) {
	case "", "false":
	case "true":
		l.insecure = true
	default:
		l.bad(keyInsecure, "is neither true nor false; certificates are checked unless it is true")
	}
}

// bad notes a problem with an entry.
func (l *login) bad(key, message string) {
	l.problems = append(l.problems, cloud.Problem{Severity: cloud.BlocksAll, Field: "secret." + key, Message: message})
}

// validate adds what is missing or does not go together.
func (l *login) validate() {
	if len(l.problems) > 0 && l.authURL == "" {
		return // nothing could be read
	}
	l.validateURL()
	switch {
	case l.secret != "" || l.appID != "":
		l.validateApplication()
	case l.token != "":
		l.validateProject()
	default:
		l.validatePassword()
	}
	l.validateTLS()
}

func (l *login) validateTLS() {
	if _, err := l.tls(); err == nil {
		return
	}
	key := keyCA
	if len(l.cert)+len(l.key) > 0 && (len(l.ca) == 0 || x509.NewCertPool().AppendCertsFromPEM(l.ca)) {
		key = keyClientCert
	}
	l.bad(key, "cannot be read; put PEM there, a certificate with its key where it is the client's")
}

func (l *login) validateURL() {
	u, err := url.Parse(l.authURL)
	switch {
	case l.authURL == "":
		l.bad(keyAuthURL, "is missing; put the URL of Keystone there, e.g. https://keystone.example.com/v3")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil:
		l.bad(keyAuthURL, "is no URL; put that of Keystone there, e.g. https://keystone.example.com/v3")
	}
}

func (l *login) validateApplication() {
	if l.password != "" {
		l.bad(keyPassword, "cannot be set together with "+keyAppSecret+"; remove one of them")
	}
	if l.secret == "" {
		l.bad(keyAppSecret, "is missing; put the secret of the application credential there")
	}
	switch {
	case l.appID != "":
	case l.appName == "":
		l.bad(keyAppID, "is missing; put the id of the application credential there, or its name into "+keyAppName)
	default:
		if l.nameless() {
			l.bad(keyUsername, "is missing; an application credential that is named needs the name of its user")
		}
		if l.userHasNoDomain() && l.domain+l.domainID == "" {
			l.bad(keyDomainName, "is missing; an application credential that is named needs the domain of its user")
		}
	}
}

func (l *login) validatePassword() {
	if l.nameless() {
		l.bad(keyUsername, "is missing; put the name of the user there, or use an application credential")
	}
	if l.password == "" {
		l.bad(keyPassword, "is missing; put the password there, or use an application credential")
	}
	l.validateProject()
}

// validateProject adds what is missing to name the project. A token names its user.
func (l *login) validateProject() {
	if l.project == "" && l.projectID == "" {
		l.bad(keyTenantName, "is missing; put the name of the project there, or its id into "+keyTenantID)
	}
	needed := l.token == "" && l.userHasNoDomain() || l.projectID == "" && l.project != ""
	if needed && l.domain+l.domainID == "" {
		l.bad(keyDomainName, "is missing; put the name of the domain there, or its id into "+keyDomainID)
	}
}

// nameless reports whether the user is not named.
func (l *login) nameless() bool { return l.user == "" && l.userID == "" }

// userHasNoDomain reports whether the user is named, and in no domain of its own.
func (l *login) userHasNoDomain() bool { return l.userID == "" && l.userDomain+l.userDomID == "" }

// authOptions are what Keystone is given.
func (l *login) authOptions() gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: l.endpoint()}
	switch {
	case l.secret != "" && l.appID != "":
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = l.appID, l.secret
	case l.secret != "":
		o.ApplicationCredentialName, o.ApplicationCredentialSecret = l.appName, l.secret
		l.nameUser(&o)
	case l.token != "":
		o.TokenID, o.Scope = l.token, l.scope()
	default:
		o.Password, o.Scope = l.password, l.scope()
		l.nameUser(&o)
	}
	return o
}

// nameUser names the user: by id, or by name and domain.
func (l *login) nameUser(o *gophercloud.AuthOptions) {
	if o.UserID = l.userID; l.userID != "" {
		return
	}
	o.Username = l.user
	switch {
	case l.userDomID != "":
		o.DomainID = l.userDomID
	case l.userDomain != "":
		o.DomainName = l.userDomain
	case l.domainID != "":
		o.DomainID = l.domainID
	default:
		o.DomainName = l.domain
	}
}

// scope is the project: by id, or by name and domain.
func (l *login) scope() *gophercloud.AuthScope {
	switch {
	case l.projectID != "":
		return &gophercloud.AuthScope{ProjectID: l.projectID}
	case l.domainID != "":
		return &gophercloud.AuthScope{ProjectName: l.project, DomainID: l.domainID}
	}
	return &gophercloud.AuthScope{ProjectName: l.project, DomainName: l.domain}
}

// endpoint is the URL of version 3 of Keystone.
func (l *login) endpoint() string {
	at := strings.TrimRight(l.authURL, "/")
	at = strings.TrimSuffix(strings.TrimSuffix(at, "/v2.0"), "/v3")
	return at + "/v3/"
}

// tls returns how connections are made.
func (l *login) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: l.insecure} //nolint:gosec // the Secret asks for it
	if len(l.ca) > 0 {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(l.ca) {
			return nil, errNoCertificate
		}
	}
	if len(l.cert)+len(l.key) > 0 {
		pair, err := tls.X509KeyPair(l.cert, l.key)
		if err != nil {
			return nil, errNoCertificate // its text may quote the key
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
