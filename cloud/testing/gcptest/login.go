package gcptest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// The services that give out tokens, and what they are given.
const (
	tokenHost = "oauth2.googleapis.com" //nolint:gosec // a host, and no credential
	stsHost   = "sts.googleapis.com"
	iamHost   = "iamcredentials.googleapis.com"
	stsPath   = "/v1/token"

	email = "machines@" + Project + ".iam.gserviceaccount.com"

	// WorkloadToken is the token of the workload that may call the double.
	WorkloadToken = "workload-token-of-the-double"
	// audience is the provider that it is from.
	audience = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/p"
)

// theKey is the key of the double's service account. Tests share it, because making one takes long.
var theKey = sync.OnceValue(func() *rsa.PrivateKey {
	const bits = 2048
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
})

// Key returns the JSON key of the service account, as Google Cloud writes it.
func Key() []byte { return KeyAt("https://" + tokenHost + "/token") }

// OtherKey is a key with which the service account works in another project, where nothing is.
func OtherKey() []byte {
	return []byte(strings.Replace(string(Key()), `"project_id": "`+Project+`"`, `"project_id": "`+OtherProject+`"`, 1))
}

// KeyAt is Key with another address that gives out tokens.
func KeyAt(tokenURL string) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(theKey())
	if err != nil {
		panic(err)
	}
	text, err := json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": Project, "private_key_id": "key-1", "client_email": email, "client_id": "1",
		"private_key":                 string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"auth_uri":                    "https://accounts.google.com/o/oauth2/auth",
		"token_uri":                   tokenURL,
		"auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
		"client_x509_cert_url":        "https://www.googleapis.com/robot/v1/metadata/x509/" + url.PathEscape(email),
		"universe_domain":             "googleapis.com",
	}, "", "  ")
	if err != nil {
		panic(err)
	}
	return text
}

// Federation returns a configuration of workload identity.
func Federation() []byte {
	text, err := json.Marshal(map[string]any{ //nolint:gosec // addresses, and no credential
		"type": "external_account", "universe_domain": "googleapis.com", "audience": audience,
		"subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": "https://" + stsHost + "/v1/token",
		"credential_source": map[string]any{
			"file": "/var/run/secrets/gardener.cloud/workload-identity/token", "format": map[string]string{"type": "text"},
		},
		"service_account_impersonation_url": "https://" + iamHost + "/v1/projects/-/serviceAccounts/" + email +
			":generateAccessToken",
	})
	if err != nil {
		panic(err)
	}
	return text
}

// token is the access token that counts now.
func (c *Cloud) token() string { return fmt.Sprintf("ya29.access-%d", c.session) }

// logIn is what the services that give out tokens answer.
func (c *Cloud) logIn(w http.ResponseWriter, r *http.Request, body []byte) {
	form, _ := url.ParseQuery(string(body))
	denied := ""
	switch {
	case r.Method != http.MethodPost:
		denied = "invalid_request"
	case c.revoked:
		denied = "invalid_grant"
	case r.URL.Path == "/token":
		denied = c.checkAssertion(form)
	case r.URL.Path == stsPath:
		denied = checkExchange(form)
	case strings.HasSuffix(r.URL.Path, ":generateAccessToken"):
		c.impersonate(w, r)
		return
	default:
		denied = "invalid_request"
	}
	if denied != "" {
		answer(w, http.StatusBadRequest, map[string]string{"error": denied, "error_description": "The grant is not valid."})
		return
	}
	token := c.token()
	if r.URL.Path == stsPath {
		token = "federated" // which only stands for a service account
	}
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3599})
}

// checkExchange returns how a workload's token is refused; empty if it is not.
func checkExchange(form url.Values) string {
	for key, want := range map[string]string{ //nolint:gosec // the token is the double's own
		"subject_token": WorkloadToken, "audience": audience, "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
		"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
	} {
		if form.Get(key) != want {
			return "invalid_grant"
		}
	}
	return ""
}

// impersonate gives a federated identity a token of the service account.
func (c *Cloud) impersonate(w http.ResponseWriter, r *http.Request) {
	itself := strings.Contains(r.URL.Path, "/"+email+":generateAccessToken")
	if r.Header.Get("Authorization") != "Bearer federated" || !itself {
		answer(w, http.StatusForbidden, map[string]any{"error": map[string]any{
			"code": http.StatusForbidden, "status": "PERMISSION_DENIED", "message": "Permission denied",
		}})
		return
	}
	answer(w, http.StatusOK, map[string]string{"accessToken": c.token(), "expireTime": "2030-01-01T00:00:00Z"})
}

// checkAssertion returns how a signed assertion is refused; empty if it is not.
func (c *Cloud) checkAssertion(form url.Values) string {
	parts := strings.Split(form.Get("assertion"), ".")
	const three = 3
	if form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || len(parts) != three {
		return "invalid_request"
	}
	signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	now := c.options.Now()
	switch {
	case rsa.VerifyPKCS1v15(&theKey().PublicKey, crypto.SHA256, sum[:], signature) != nil,
		json.Unmarshal(text, &claims) != nil, claims.Iss != email, claims.Aud != c.options.TokenURL,
		claims.Scope != "https://www.googleapis.com/auth/cloud-platform", claims.Exp-claims.Iat > int64(time.Hour.Seconds()),
		claims.Exp <= now.Unix(), claims.Iat > now.Add(time.Minute).Unix():
		return "invalid_grant"
	}
	return ""
}
