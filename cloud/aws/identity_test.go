package aws_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestFreshProfile: EC2 learns of an instance profile late.
func TestFreshProfile(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", spec{"iam": spec{"name": "new"}}), credentials())
	r := w.request(c, 1)
	if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("at first: got %v, want Unavailable", err)
	}
	w.now.Advance(2 * time.Minute)
	if _, err := a.Create(t.Context(), r); cloud.CodeOf(err) != cloud.Invalid {
		t.Errorf("later: got %v, want Invalid", err)
	}
}

// TestAmbient: a Secret without credentials means the manager's own, where that
// is allowed.
func TestAmbient(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	w := newEnv(t)
	in := class("c", nil)
	if p := aws.NewDriver(w.options).CheckSecret(cloud.Class{}, nil); len(p) != 2 {
		t.Errorf("without Ambient: got %v, want both entries missing", p)
	}
	w.options.Ambient = true
	a, c := w.open(in, cloud.Credentials{"userData": nil})
	if _, err := a.Get(t.Context(), w.request(c, 1).Ref); cloud.CodeOf(err) != cloud.Denied {
		t.Errorf("nothing in the environment: got %v, want Denied", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", ec2test.KeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", ec2test.SecretKey)
	a, c = w.open(in, nil)
	if _, err := a.Get(t.Context(), w.request(c, 1).Ref); cloud.CodeOf(err) != cloud.NotFound {
		t.Errorf("keys in the environment: got %v, want NotFound", err)
	}
	if p := aws.NewDriver(w.options).CheckSecret(cloud.Class{},
		cloud.Credentials{"accessKeyID": []byte("x")}); len(p) != 1 {
		t.Errorf("half of the credentials: got %v, want the other entry missing", p)
	}
}

// withSTS answers STS, which gives the credentials of the double, and counts the calls.
// check sees each of them.
func (w *env) withSTS(action string, check func(form url.Values)) *atomic.Int32 {
	logins := &atomic.Int32{}
	inner := w.options.Transport
	w.options.Transport = cloudtest.HandlerTransport(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Host, "sts.") {
			logins.Add(1)
			if err := r.ParseForm(); err != nil || r.Form.Get("Action") != action {
				w.Errorf("STS is asked for %v, %v, want %s", r.Form, err, action)
			}
			check(r.Form)
			fmt.Fprintf(rw, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult>
				<Credentials><AccessKeyId>%[2]s</AccessKeyId><SecretAccessKey>%[3]s</SecretAccessKey>
				<SessionToken>s</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>
				</%[1]sResult></%[1]sResponse>`, action, ec2test.KeyID, ec2test.SecretKey)
			return
		}
		resp, err := inner.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer func() { _ = resp.Body.Close() }()
		rw.WriteHeader(resp.StatusCode)
		_, _ = fmt.Fprint(rw, readAll(resp))
	}))
	return logins
}

// keepsSession looks for a VM, and again after its session has ended.
func (w *env) keepsSession(a cloud.Account, c cloud.Class, logins *atomic.Int32) {
	w.Helper()
	look := func(what string) {
		w.Helper()
		if _, err := a.Get(w.Context(), w.request(c, 1).Ref); cloud.CodeOf(err) != cloud.NotFound {
			w.Errorf("%s: got %v, want NotFound", what, err)
		}
	}
	look("first")
	look("second")
	if n := logins.Load(); n != 1 {
		w.Errorf("%d logins for two calls, want 1", n)
	}
	w.cloud.Inject(ec2test.Fault{
		Code: "ExpiredToken", Message: "The security token included in the request is expired",
		Times: 1,
	})
	look("after the session ended")
	if n := logins.Load(); n != 2 {
		w.Errorf("%d logins after the session ended, want one more", n)
	}
}

// TestWebIdentity: a token is exchanged for a session, and again when that ends.
func TestWebIdentity(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	logins := w.withSTS("AssumeRoleWithWebIdentity", func(url.Values) {})
	file := filepath.Join(w.tokens, "token")
	if err := os.WriteFile(file, []byte("a-web-identity-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, c := w.open(class("c", nil), cloud.Credentials{
		"workloadIdentityTokenFile": []byte(file + "\n"), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
	})
	w.keepsSession(a, c, logins)
}

// TestTokenOfTheManager: a Secret does not name the manager's own token, by any path, unless
// ambient credentials are allowed.
func TestTokenOfTheManager(t *testing.T) {
	w := newEnv(t)
	own := filepath.Join(w.tokens, "own")
	link := filepath.Join(w.tokens, "link")
	if err := errors.Join(os.WriteFile(own, []byte("t"), 0o600), os.Symlink("own", link)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", own)
	check := func(path string) int {
		return len(aws.NewDriver(w.options).CheckSecret(cloud.Class{}, cloud.Credentials{
			"workloadIdentityTokenFile": []byte(path), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
		}))
	}
	for _, path := range []string{own, link, filepath.Dir(own) + "/../" + filepath.Base(filepath.Dir(own)) + "/own"} {
		if check(path) != 1 {
			t.Errorf("%s is accepted", path)
		}
	}
	if n := check(filepath.Join(w.tokens, "another")); n != 0 {
		t.Errorf("another token has %d problems", n)
	}
	w.options.Ambient = true
	if n := check(own); n != 0 {
		t.Errorf("with Ambient the manager's token has %d problems", n)
	}
}

// TestFilesThatASecretNames: whoever writes Secrets chooses the path, and its content is sent to AWS.
func TestFilesThatASecretNames(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for path, reason := range map[string]string{
		"/dev/zero":                                           "It has no end.",
		"/etc/passwd":                                         "It is no token.",
		filepath.Join(t.TempDir(), "x"):                       "No flag of the manager names the folder.",
		"workload-identity/token":                             "Where that is depends on how the manager was started.",
		w.tokens + "/../outside/token":                        "It leads out of the folder.",
		w.tokens + "-but/another/folder":                      "The name of the folder only begins alike.",
		"/var/run/secrets/kubernetes.io/serviceaccount/token": "By it the API server knows the manager.",
	} {
		creds := cloud.Credentials{
			"workloadIdentityTokenFile": []byte(path), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
		}
		problems := aws.NewDriver(w.options).CheckSecret(cloud.Class{}, creds)
		if len(problems) != 1 || problems[0].Field != "secret.workloadIdentityTokenFile" {
			t.Errorf("%s: got %v, want a problem with the entry\nbecause: %s", path, problems, reason)
		}
	}
}

// TestTokenIsReadWithBounds: what does not end, or is too large, is sent nowhere.
func TestTokenIsReadWithBounds(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"largest": 64 << 10, "too large": 64<<10 + 1} {
		w := newEnv(t)
		logins := w.withSTS("AssumeRoleWithWebIdentity", func(url.Values) {})
		file := filepath.Join(w.tokens, "token")
		if err := os.WriteFile(file, bytes.Repeat([]byte("t"), size), 0o600); err != nil {
			t.Fatal(err)
		}
		a, c := w.open(class("c", nil), cloud.Credentials{
			"workloadIdentityTokenFile": []byte(file), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
		})
		_, err := a.Get(t.Context(), w.request(c, 1).Ref)
		if want := name == "largest"; (logins.Load() == 1) != want {
			t.Errorf("%s: %d logins, %v", name, logins.Load(), err)
		}
		if name == "too large" && (cloud.CodeOf(err) != cloud.Denied || !strings.Contains(err.Error(), "65536 bytes")) {
			t.Errorf("%s: got %v, want Denied and the limit", name, err)
		}
	}
}

// TestRegionIsNoAddress: the SDK makes host names of it, so it has nothing by which a
// request, with its signature or token, would go elsewhere.
func TestRegionIsNoAddress(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	for region, ok := range map[string]bool{
		"eu-west-1": true, "us-gov-east-1": true, "evil.example.com/": false, "a@evil.example.com": false, "x#": false,
	} {
		_, problems := aws.NewDriver(w.options).Parse(class("c", spec{"region": region}))
		refused := slices.ContainsFunc(problems, func(p cloud.Problem) bool {
			return p.Field == "providerSpec.region" && p.Severity == cloud.BlocksAll
		})
		if refused == ok {
			t.Errorf("region %q: %v", region, problems)
		}
	}
}

// TestAssumeRole: an access key is exchanged for a session of the class's role, which
// has an account of its own.
func TestAssumeRole(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/machines"
	w := newEnv(t)
	logins := w.withSTS("AssumeRole", func(form url.Values) {
		if form.Get("RoleArn") != role || form.Get("ExternalId") != "an:id" {
			t.Errorf("STS is asked for %v, want the role and the external id", form)
		}
	})
	creds := cloud.Credentials{"providerAccessKeyId": []byte("AKIDOFTHEMANAGER"), "providerSecretAccessKey": []byte("key")}
	a, c := w.open(class("c", spec{"assumeRole": spec{"arn": role, "externalID": "an:id"}}), creds)
	w.keepsSession(a, c, logins)
	_, plain := w.open(class("c", nil), creds)
	_, other := w.open(class("c", spec{"assumeRole": spec{"arn": role, "externalID": "another"}}), creds)
	if c.Endpoint == plain.Endpoint || c.Endpoint == other.Endpoint || strings.Contains(c.Endpoint, "an:id") {
		t.Errorf("endpoints %q, %q and %q, want three, without the external id", c.Endpoint, plain.Endpoint, other.Endpoint)
	}
}

func readAll(resp *http.Response) string {
	var b strings.Builder
	_ = resp.Write(&b)
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
}
