package gcp

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	opLogin   = "log in"
	scope     = "https://www.googleapis.com/auth/cloud-platform"
	jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // a name, and no credential
)

// logIn fetches an access token.
func (c *client) logIn(ctx context.Context) (string, error) {
	token, e := "", (*cloud.Error)(nil)
	if c.who.key != nil {
		token, e = c.tokenOfKey(ctx)
	} else {
		token, e = c.tokenOfFederation(ctx)
	}
	switch {
	case e != nil:
		return "", denied(e)
	case token == "":
		return "", driverkit.BrokenAnswer(opLogin, "the answer has no access token")
	}
	return token, nil
}

// denied returns an error of a login, of which one that the table knows as a fault of the request
// is one of the credentials: the request has nothing else in it.
func denied(e *cloud.Error) *cloud.Error {
	if e.Code == cloud.Invalid || e.Code == cloud.NotFound {
		e.Code, e.Problems = cloud.Denied, nil
	}
	return e
}

// tokenOfKey exchanges a signed assertion for a token, as RFC 7523 has it.
func (c *client) tokenOfKey(ctx context.Context) (string, *cloud.Error) {
	assertion, err := c.assertion()
	if err != nil {
		return "", cloud.Errorf(cloud.Denied, opLogin, "BadKey",
			"the private key cannot sign; put another one into the Secret")
	}
	return c.postForm(ctx, c.who.file.TokenURI, url.Values{"grant_type": {jwtBearer}, "assertion": {assertion}})
}

// assertion is a signed claim to be the service account.
func (c *client) assertion() (string, error) {
	f, now := c.who.file, c.now()
	part := func(v map[string]any) string {
		text, _ := json.Marshal(v) // of strings and numbers, never fails
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "RS256", "typ": "JWT", "kid": f.PrivateKeyID}) + "." + part(map[string]any{
		"iss": f.ClientEmail, "scope": scope, "aud": f.TokenURI, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	})
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, c.who.key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}

// postForm asks a token service for a token.
func (c *client) postForm(ctx context.Context, address string, form url.Values) (string, *cloud.Error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", cloud.Errorf(cloud.Denied, opLogin, "BadTokenURI", "the token_uri of the Secret is no address")
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	plain := *c.session.API.HTTP
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := plain.Do(r)
	if err != nil {
		return "", driverkit.NoAnswer(ctx, opLogin, err)
	}
	defer func() { _ = answer.Body.Close() }()
	const most = 1 << 20
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil {
		return "", driverkit.NoAnswer(ctx, opLogin, err)
	}
	if answer.StatusCode != http.StatusOK {
		said := driverkit.Answer{Status: answer.StatusCode, RetryAfter: driverkit.RetryAfter(answer.Header, c.now())}
		said.Code, said.Message = refusal(body)
		return "", table.Error(opLogin, said)
	}
	var out struct {
		Token string `json:"access_token"`
	}
	if json.Unmarshal(body, &out) != nil {
		return "", driverkit.BrokenAnswer(opLogin, "the answer of the token service cannot be decoded")
	}
	return out.Token, nil
}

// tokenOfFederation exchanges the workload's own token for one of Google Cloud's, and that for a
// service account's if the configuration names one. The file is read again each time, because its
// token is renewed.
func (c *client) tokenOfFederation(ctx context.Context) (string, *cloud.Error) {
	f := c.who.file
	subject, err := c.readFile(f.Source.File)
	if err != nil {
		return "", cloud.Errorf(cloud.Denied, opLogin, "NoWorkloadToken",
			"the workload's token cannot be read: %w; mount it at %s", driverkit.Innermost(err), f.Source.File)
	}
	token, e := c.postForm(ctx, f.TokenURL, url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "audience": {f.Audience}, "scope": {scope},
		"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "subject_token_type": {f.SubjectTokenType},
		"subject_token": {strings.TrimSpace(string(subject))},
	})
	if e != nil || f.Impersonation == "" {
		return token, e
	}
	var out struct {
		Token string `json:"accessToken"`
	}
	e = c.session.API.Do(ctx, opLogin, driverkit.Call{
		Method: http.MethodPost, URL: f.Impersonation, Header: bearer(token), Out: &out,
		Body: map[string]any{"scope": []string{scope}, "lifetime": "3600s"},
	})
	return out.Token, e
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}
