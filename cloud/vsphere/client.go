package vsphere

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the form of thumbprints that vCenter shows; a certificate is compared with it, nothing is signed
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	// keepAlive is how often a session is used at least; vCenter ends those that
	// are idle for half an hour.
	keepAlive = 10 * time.Minute
	// lastCall is how long the calls may take that no caller waits for.
	lastCall = 5 * time.Second
)

// opLogin is what logins are called in errors.
const opLogin = "log in"

// vcenter is one session with a vCenter. It logs in again, once for all
// callers, when the session has ended.
type vcenter struct {
	*vim25.Client
	who    login
	driver *Driver
	http   *soap.Client
	jar    *jar
	logins *driverkit.Login[struct{}]
	rest   *restAPI

	mu     sync.Mutex
	closed bool
	timer  *time.Timer
	logout func()
}

// connect returns a session that is logged in.
func (d *Driver) connect(ctx context.Context, who login) (*vcenter, error) {
	v := &vcenter{who: who, driver: d, jar: newJar()}
	v.logins, v.rest = driverkit.NewLogin(v.loginOptions(who.fingerprint), v.login), newRESTAPI(v)
	v.http = soap.NewClient(who.endpoint, who.insecure)
	v.http.UserAgent = "cluster-api-provider-mcm"
	v.http.Jar = v.jar
	v.http.Transport = statuses{v.transport(d.transport)}
	if err := v.open(ctx); err != nil {
		v.http.Client.CloseIdleConnections()
		return nil, err
	}
	lasting := context.WithoutCancel(ctx)
	v.stayAlive(lasting)
	v.logout = func() { v.end(lasting) }
	return v, nil
}

// open logs in for the first time. Credentials that were refused lately cost no call.
func (v *vcenter) open(ctx context.Context) error {
	if v.driver.refusals.Lately(v.who.fingerprint, v.driver.now()) {
		return v.logins.Renew(ctx, opLogin, 0)
	}
	client, err := vim25.NewClient(ctx, v.http)
	if err != nil {
		return err
	}
	v.Client = client
	v.RoundTripper = v
	return v.logins.Renew(ctx, opLogin, 0)
}

// loginOptions are those of the logins to one API. Each has a fingerprint of its own, so
// that one of them which refuses the account's credentials does not lock out the other.
func (v *vcenter) loginOptions(fingerprint string) driverkit.LoginOptions {
	return driverkit.LoginOptions{
		Refusals: &v.driver.refusals, Fingerprint: fingerprint, Refused: refusedLogin, Now: v.driver.now,
	}
}

// refusedLogin reports whether vCenter has refused the user or the password. Other denied
// logins, e.g. of a user without permissions or by a proxy, do not lock the user.
func refusedLogin(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && slices.Contains([]string{"InvalidLogin", "PasswordExpired", "unauthenticated", "HTTP401"}, e.Reason)
}

// transport returns the one that is given, or one that checks the server as the
// Secret says.
func (v *vcenter) transport(given http.RoundTripper) http.RoundTripper {
	if given != nil {
		return given
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: v.who.authorities,
		InsecureSkipVerify: v.who.insecure, //nolint:gosec // the user asks for it
	}
	if want := v.who.thumbprint; want != nil {
		config.InsecureSkipVerify = true // the thumbprint says more than any authority
		config.VerifyConnection = func(state tls.ConnectionState) error { return checkThumbprint(state, want) }
	}
	const connections = 32
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, MaxIdleConns: connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     time.Minute, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
	}
}

// errThumbprint is the error if another server answers.
var errThumbprint = errors.New("the server's certificate has another thumbprint than secret.vsphereThumbprint")

func checkThumbprint(state tls.ConnectionState, want []byte) error {
	if len(state.PeerCertificates) == 0 {
		return errThumbprint
	}
	raw := state.PeerCertificates[0].Raw
	old, sum := sha1.Sum(raw), sha256.Sum256(raw) //nolint:gosec // see the import
	if bytes.Equal(want, old[:]) || bytes.Equal(want, sum[:]) {
		return nil
	}
	return errThumbprint
}

// RoundTrip makes a call, and makes it again after a login when the session had
// ended.
func (v *vcenter) RoundTrip(ctx context.Context, req, res soap.HasFault) error {
	_, generation, err := v.logins.Get(ctx, opLogin)
	if err != nil {
		return err
	}
	if err := v.http.RoundTrip(ctx, req, res); !isFault[types.NotAuthenticated](err) {
		return err
	}
	if err := v.logins.Renew(ctx, opLogin, generation); err != nil {
		return err
	}
	reflect.ValueOf(res).Elem().SetZero() // it holds the fault
	return v.http.RoundTrip(ctx, req, res)
}

// login opens a session.
func (v *vcenter) login(ctx context.Context) (none struct{}, err error) {
	v.jar.forget() // vCenter refuses a login within a session
	body := &types.Login{This: *v.ServiceContent.SessionManager, UserName: v.who.user, Password: v.who.password}
	_, err = methods.Login(ctx, v.http, body)
	return none, fail(opLogin, err)
}

// stayAlive uses the session from time to time until it is closed.
func (v *vcenter) stayAlive(ctx context.Context) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer = time.AfterFunc(keepAlive, func() {
		ctx, cancel := context.WithTimeout(ctx, lastCall)
		defer cancel()
		_, _ = methods.GetCurrentTime(ctx, v) // the next call says what is wrong
		v.mu.Lock()
		defer v.mu.Unlock()
		if !v.closed {
			v.timer.Reset(keepAlive)
		}
	})
}

// end logs out. It may be called again.
func (v *vcenter) end(ctx context.Context) {
	v.mu.Lock()
	closed := v.closed
	v.closed = true
	v.timer.Stop()
	v.mu.Unlock()
	if closed {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastCall)
	defer cancel()
	v.rest.end(ctx)
	v.logins.Close()
	// it would end by itself
	_ = session.NewManager(&vim25.Client{
		Client: v.http, ServiceContent: v.ServiceContent,
		RoundTripper: v.http,
	}).Logout(ctx)
	v.http.Client.CloseIdleConnections()
}

// jar holds the cookies of a session until they are forgotten.
type jar struct {
	mu    sync.Mutex
	inner http.CookieJar
}

func newJar() *jar {
	j := &jar{}
	j.forget()
	return j
}

func (j *jar) forget() {
	inner, _ := cookiejar.New(nil) // never fails without options
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inner = inner
}

// SetCookies takes note of cookies.
func (j *jar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.inner.SetCookies(u, cookies)
}

// Cookies are those for u.
func (j *jar) Cookies(u *url.URL) []*http.Cookie {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.inner.Cookies(u)
}

// statuses makes an error of an answer that is none of the SOAP API's: of a proxy in
// front of it, or of the REST API.
type statuses struct{ next http.RoundTripper }

// statusError is such an answer. Of its body only what the REST API says is kept: it may
// echo secrets.
type statusError struct {
	status int
	after  time.Duration
	kind   string // the last part of the REST API's name of the error; empty if it names none
	text   string
}

// Error names the status and what the REST API says.
func (e *statusError) Error() string {
	status := "the answer is HTTP status " + strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.kind == "" {
		return status
	}
	return status + ", " + e.kind + colon(e.text)
}

// explain adds what the REST API says in a body.
func (e *statusError) explain(body []byte) {
	var answer struct {
		Type  string `json:"type"`
		Value struct {
			Messages []struct {
				Text string `json:"default_message"`
			} `json:"messages"`
		} `json:"value"`
	}
	if json.Unmarshal(body, &answer) != nil || !strings.HasPrefix(answer.Type, restErrors) {
		return
	}
	e.kind = strings.TrimPrefix(answer.Type, restErrors)
	var texts []string
	for _, m := range answer.Value.Messages {
		texts = append(texts, m.Text)
	}
	e.text = joined(texts)
}

// RoundTrip returns the API's answers only.
func (s statuses) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil || resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp, err
	}
	const limit = 4 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusInternalServerError && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<?xml")) {
		resp.Body = io.NopCloser(bytes.NewReader(body)) // a fault
		return resp, nil
	}
	refused := &statusError{status: resp.StatusCode, after: driverkit.RetryAfter(resp.Header, time.Now())}
	refused.explain(body)
	return nil, refused
}

// CloseIdleConnections closes those of the next transport.
func (s statuses) CloseIdleConnections() {
	if c, ok := s.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

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

var secretKeys = cloud.SecretKeys{
	Address:    []string{hostKey, insecureKey, caKey, thumbprintKey},
	Credential: []string{passwordKey},
	Public:     []string{userKey},
}

// login is what the Secret says.
type login struct {
	endpoint       *url.URL
	user, password string
	insecure       bool
	authorities    *x509.CertPool // nil is the system's
	thumbprint     []byte         // SHA-1 or SHA-256 of the server's certificate
	fingerprint    string
}

// readLogin returns what the Secret says, and what is wrong with it, by field.
func readLogin(creds cloud.Credentials) (login, []cloud.Problem) {
	s := &driverkit.Secret{Credentials: creds}
	l := login{user: s.First(userKey), password: s.Password(passwordKey), fingerprint: creds.Fingerprint()}
	if pem := s.First(caKey); pem != "" {
		l.authorities = x509.NewCertPool()
		if !l.authorities.AppendCertsFromPEM([]byte(pem)) {
			s.Bad(caKey, "holds no certificate; put the PEM certificates of the authorities there")
		}
	}
	endpoint, ok := parseHost(s.First(hostKey))
	if l.endpoint = endpoint; !ok {
		s.Bad(hostKey, "is no host; put the name of the vCenter there, e.g. vcenter.example.com or vcenter.example.com:443")
	}
	switch strings.ToLower(s.First(insecureKey)) {
	case "true", "1":
		l.insecure = true
	}
	s.Require(passwordKey, l.password, "the password")
	if text := s.First(thumbprintKey); text != "" {
		if l.thumbprint, ok = parseThumbprint(text); !ok {
			s.Bad(thumbprintKey, "is no thumbprint; put the SHA-1 or SHA-256 of the server's certificate there, in "+
				"hexadecimal digits")
		}
	}
	s.Require(userKey, l.user, "the name of the user")
	return l, s.Problems
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
