package vsphere

import (
	"crypto/x509"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// The entries of the Secret. The last two are ours: MCM's driver trusts either
// the system's authorities or everyone.
const (
	hostKey       = "vsphereHost"
	userKey       = "vsphereUsername"
	passwordKey   = "vspherePassword"
	insecureKey   = "vsphereInsecureSSL"
	caKey         = "vsphereCABundle"
	thumbprintKey = "vsphereThumbprint"
)

// login is what the Secret says.
type login struct {
	endpoint       *url.URL
	user, password string
	insecure       bool
	authorities    *x509.CertPool // nil is the system's
	thumbprint     []byte         // SHA-1 or SHA-256 of the server's certificate
	fingerprint    string
}

// readLogin returns what the Secret says, without the white space that editors
// and encoders leave around values, and what is wrong with it, by field.
func readLogin(creds cloud.Credentials) (login, []cloud.Problem) {
	var problems []cloud.Problem
	bad := func(key, message string) {
		problems = append(problems, cloud.Problem{Severity: cloud.BlocksAll, Field: "secret." + key, Message: message})
	}
	value := func(key string) string { return strings.TrimSpace(string(creds[key])) }
	l := login{
		user: value(userKey), password: strings.TrimRight(string(creds[passwordKey]), "\r\n"),
		fingerprint: creds.Fingerprint("userData"),
	}
	if pem := value(caKey); pem != "" {
		l.authorities = x509.NewCertPool()
		if !l.authorities.AppendCertsFromPEM([]byte(pem)) {
			bad(caKey, "holds no certificate; put the PEM certificates of the authorities there")
		}
	}
	endpoint, ok := parseHost(value(hostKey))
	if l.endpoint = endpoint; !ok {
		bad(hostKey, "is no host; put the name of the vCenter there, e.g. vcenter.example.com or vcenter.example.com:443")
	}
	switch strings.ToLower(value(insecureKey)) {
	case "true", "1":
		l.insecure = true
	}
	if l.password == "" {
		bad(passwordKey, "is missing; put the password there")
	}
	if text := value(thumbprintKey); text != "" {
		if l.thumbprint, ok = parseThumbprint(text); !ok {
			bad(thumbprintKey, "is no thumbprint; put the SHA-1 or SHA-256 of the server's certificate there, in "+
				"hexadecimal digits")
		}
	}
	if l.user == "" {
		bad(userKey, "is missing; put the name of the user there")
	}
	return l, problems
}

// parseHost returns the URL of the API of a host.
func parseHost(host string) (*url.URL, bool) {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "https://"), "/sdk")
	u, err := url.Parse("https://" + strings.TrimSuffix(host, "/") + "/sdk")
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "/sdk" || u.RawQuery != "" || u.Fragment != "" {
		return nil, false
	}
	return u, true
}

// parseThumbprint accepts hexadecimal digits with or without colons.
func parseThumbprint(text string) ([]byte, bool) {
	const sha1Size, sha256Size = 20, 32
	sum, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	return sum, err == nil && (len(sum) == sha1Size || len(sum) == sha256Size)
}
