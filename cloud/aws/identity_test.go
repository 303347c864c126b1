package aws_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/cloudtest"
)

// TestFreshProfile: EC2 learns of an instance profile late.
func TestFreshProfile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
	w := newWorld(t)
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

// TestWebIdentity: a token is exchanged for a session, and again when that ends.
func TestWebIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var logins atomic.Int32
	inner := w.options.Transport
	w.options.Transport = cloudtest.HandlerTransport(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Host, "sts.") {
			logins.Add(1)
			fmt.Fprintf(rw, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
				<AssumeRoleWithWebIdentityResult>
				<Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey>
				<SessionToken>s</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>
				</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, ec2test.KeyID, ec2test.SecretKey)
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
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-web-identity-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, c := w.open(class("c", nil), cloud.Credentials{
		"workloadIdentityTokenFile": []byte(file + "\n"), "roleARN": []byte("arn:aws:iam::123456789012:role/r"),
	})
	look := func(what string) {
		t.Helper()
		if _, err := a.Get(t.Context(), w.request(c, 1).Ref); cloud.CodeOf(err) != cloud.NotFound {
			t.Errorf("%s: got %v, want NotFound", what, err)
		}
	}
	look("first")
	look("second")
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins for two calls, want 1", n)
	}
	w.cloud.Inject(ec2test.Fault{
		Code: "ExpiredToken", Message: "The security token included in the request is expired",
		Times: 1,
	})
	look("after the session ended")
	if n := logins.Load(); n != 2 {
		t.Errorf("%d logins after the session ended, want one more", n)
	}
}

func readAll(resp *http.Response) string {
	var b strings.Builder
	_ = resp.Write(&b)
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
}
