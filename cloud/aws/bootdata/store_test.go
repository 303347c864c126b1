package bootdata_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/s3"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/s3test"
)

const (
	bucket  = "example-boot-data"
	owner   = "123456789012"
	canary  = "-----BEGIN EC PRIVATE KEY-----\nY2FuYXJ5\n-----END EC PRIVATE KEY-----\n"
	content = "## template: jinja\n#cloud-config\nwrite_files:\n- content: |\n    " + canary
)

// env is a bucket and what is needed to use it. Its time moves only when a test moves it.
type env struct {
	*testing.T
	now     time.Time
	s3      *s3test.Store
	service s3.Service
	spec    bootdata.Spec
	session awssdk.Credentials
	logins  int
}

func newEnv(t *testing.T) *env {
	t.Helper()
	s := &env{T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC), spec: bootdata.Spec{Bucket: bucket}}
	s.session = awssdk.Credentials{AccessKeyID: "KEY", SecretAccessKey: "a secret"}
	s.s3 = s3test.New(s3test.Settings{
		Region: "eu-west-1", PageSize: 2, Accounts: map[string]s3test.Account{"KEY": {Secret: "a secret"}},
		Buckets: map[string]s3test.Bucket{bucket: {Owner: owner}},
	}, func() time.Time { return s.now })
	s.service = s3.Service{
		HTTP: &http.Client{Transport: cloudtest.HandlerTransport(s.s3)}, Region: "eu-west-1", Suffix: "amazonaws.com",
		Now: func() time.Time { return s.now },
		Credentials: awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
			return s.session, nil
		}),
	}
	return s
}

// logIn gives the caller a session that lasts for d, each time that it logs in.
func (s *env) logIn(d time.Duration) {
	open := func() {
		s.logins++
		token := strings.Repeat("t", s.logins)
		s.session = awssdk.Credentials{
			AccessKeyID: "KEY", SecretAccessKey: "a secret", SessionToken: token, CanExpire: true, Expires: s.now.Add(d),
		}
		s.s3.Change(func(set *s3test.Settings) {
			set.Accounts["KEY"] = s3test.Account{Secret: "a secret", Token: token, Ends: s.now.Add(d)}
		})
	}
	open()
	s.service.Refresh = open
}

func (s *env) store() bootdata.Store {
	tags := map[string]string{"kubernetes.io/cluster/c1": "1"}
	return bootdata.NewStore(s.service, &s.spec, tags, []string{"kubernetes.io/cluster/c1"})
}

func request(data string) cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref: cloud.Ref{Name: "m", OwnerID: "owner/1"}, Token: "token", UserData: []byte(data),
		Tags: map[string]string{cloud.ClusterIDTag: "cluster-1"},
	}
}

// keep returns what the instance gets.
func (s *env) keep(r cloud.CreateRequest) []byte {
	s.Helper()
	got, err := s.store().Keep(s.Context(), "run instance", r)
	if err != nil {
		s.Fatal(err)
	}
	return got
}

// fetches fails unless an instance with this user data boots with want.
func (s *env) fetches(userData []byte, want string) {
	s.Helper()
	if got, err := s.s3.Guest(userData); err != nil || string(got) != want {
		s.Errorf("the guest boots with %.40q, error %v, want %.40q", got, err, want)
	}
}

// denied fails unless the guest gets nothing.
func (s *env) denied(why string, userData []byte) {
	s.Helper()
	if got, err := s.s3.Guest(userData); err == nil {
		s.Errorf("%s: the guest still gets %.40q", why, got)
	}
}

func TestGuestFetchesOnce(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"Jinja": content, "Script": "#!/bin/sh\n" + canary, "MIME": "MIME-Version: 1.0\r\n\r\n--x\r\n",
		"Ignition": `{"ignition":{"version":"3.4.0"},"storage":{"files":[{"contents":{"source":"data:,PRIVATE"}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t)
			userData := s.keep(request(data))
			if text := string(userData); strings.Contains(text, "PRIVATE") || strings.Contains(text, "MIME") ||
				strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))) {
				t.Errorf("user data has boot data: %s", text)
			}
			s.fetches(userData, data)
			if name == "Ignition" && !strings.Contains(string(userData), `"version":"3.4.0"`) {
				t.Errorf("user data %s, want the version of the configuration", userData)
			}
		})
	}
}

func TestURLIsTheSameForAnAttempt(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	first := s.keep(request(content))
	s.now = s.now.Add(29 * time.Minute)
	if again := s.keep(request(content)); string(again) != string(first) {
		t.Errorf("user data changes within the attempt, so EC2 would refuse to repeat it:\n%s%s", first, again)
	}
	s.now = s.now.Add(10 * time.Minute)
	late := s.keep(request(content))
	s.now = s.now.Add(59 * time.Minute)
	s.fetches(late, content)
	s.denied("the URL has expired", first)
	s.now = s.now.Add(2 * time.Minute)
	s.denied("the renewed URL has expired", late)
	if n := len(s.s3.Objects()); n != 1 {
		t.Errorf("%d objects, want 1", n)
	}
}

func TestOtherBootDataUnderOneToken(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.keep(request(content))
	_, err := s.store().Keep(t.Context(), "run instance", request(content+"# more"))
	if cloud.CodeOf(err) != cloud.TokenUsed {
		t.Errorf("got %v, want TokenUsed, as EC2 says of other parameters", err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.logIn(time.Hour)
	userData := s.keep(request(content))
	if s.logins != 1 {
		t.Errorf("%d logins, want 1: the session lasts long enough", s.logins)
	}
	s.now = s.now.Add(55 * time.Minute)
	other := request(content)
	other.Token = "second"
	late := s.keep(other)
	if s.logins != 2 {
		t.Errorf("%d logins, want a second one: the first session ends within 5 minutes", s.logins)
	}
	s.now = s.now.Add(20 * time.Minute)
	s.fetches(late, content)
	s.denied("the session that signed it has ended", userData)

	s.now, s.service.Refresh = s.now.Add(35*time.Minute), nil // as those of an instance profile
	other.Token = "third"
	_, err := s.store().Keep(t.Context(), "run instance", other)
	e, _ := errors.AsType[*cloud.Error](err)
	if e == nil || e.Code != cloud.Unavailable || e.Reason != "SessionEnding" || e.RetryAfter <= 0 {
		t.Errorf("got %v, want to wait for a session that lasts", err)
	}
}

func TestExpiredSessionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	s.logIn(time.Hour)
	s.now = s.now.Add(2 * time.Hour)
	s.fetches(s.keep(request(content)), content)
}

func TestRefusedBuckets(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		edit   func(*env)
		code   cloud.Code
		says   string
	}{
		"Versions": {"Deleted keys could be read from old versions.", func(s *env) {
			s.s3.Change(func(set *s3test.Settings) { set.Buckets[bucket] = s3test.Bucket{Owner: owner, Versions: true} })
		}, cloud.Invalid, "versioning"},
		"Missing": {"There is nowhere to put it.", func(s *env) { s.spec.Bucket = "another" }, cloud.Invalid, "exists"},
		"Region": {"S3 says where the bucket is.", func(s *env) {
			s.s3.Change(func(set *s3test.Settings) { set.Region = "us-east-1" })
		}, cloud.Invalid, "region"},
		"Owner": {"A bucket of that name may be somebody else's by now.", func(s *env) {
			s.spec.BucketOwner = "999999999999"
		}, cloud.Denied, ""},
		"Key": {"The credentials are wrong.", func(s *env) { s.session.SecretAccessKey = "another" }, cloud.Denied, ""},
		"Skew": {"The clock of the manager is wrong.", func(s *env) {
			now := s.now.Add(time.Hour)
			s.service.Now = func() time.Time { return now }
		}, cloud.Denied, ""},
		"Anonymous": {"S3 answers no stranger.", func(s *env) { s.session.AccessKeyID = "X" }, cloud.Denied, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newEnv(t)
			tc.edit(s)
			_, err := s.store().Keep(t.Context(), "run instance", request(content))
			if cloud.CodeOf(err) != tc.code || !strings.Contains(err.Error()+problemsOf(err), tc.says) {
				t.Errorf("got %v, want %v that says %q: %s", err, tc.code, tc.says, tc.reason)
			}
			if left := s.s3.Objects(); len(left) > 0 {
				t.Errorf("left behind: %v", left[0].Key)
			}
		})
	}
}

// problemsOf is what an error says about fields.
func problemsOf(err error) string {
	e, _ := errors.AsType[*cloud.Error](err)
	text := ""
	for _, p := range e.Problems {
		text += p.String()
	}
	return text
}

func TestClockOfTheManager(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	slow := s.now.Add(-10 * time.Minute)
	s.service.Now = func() time.Time { return slow }
	userData := s.keep(request(content))
	s.now = s.now.Add(59 * time.Minute)
	s.fetches(userData, content)
}

func TestListAndDelete(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	for _, token := range []string{"1", "2", "3"} { // more than a page
		r := request(content)
		r.Token = token
		s.keep(r)
	}
	longer := request(content)
	longer.OwnerID += "0"
	s.keep(longer)
	all, err := driverkit.Collect(s.store().List(t.Context(), "list"))
	if err != nil || len(all) != 4 {
		t.Fatalf("%d objects, %v, want 4", len(all), err)
	}
	want := cloud.Resource{Kind: bootdata.Kind, MachineName: "m", OwnerID: "owner/1"}
	if got := all[0]; got.Kind != want.Kind || got.MachineName != want.MachineName || got.OwnerID != want.OwnerID ||
		got.Tags[cloud.ClusterIDTag] != "cluster-1" || got.Created.IsZero() {
		t.Errorf("got %+v, want %+v with the id of its Cluster", got, want)
	}
	for key, err := range s.store().Of(t.Context(), "list", request("").Ref) {
		if err == nil {
			err = s.store().Delete(t.Context(), "delete", key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if left := s.s3.Objects(); len(left) != 1 || !strings.Contains(left[0].Key, "/owner%2F10/") {
		t.Errorf("left: %v, want the object of the other owner", left)
	}
	s.s3.Change(func(set *s3test.Settings) { clear(set.Buckets) })
	if all, err := driverkit.Collect(s.store().List(t.Context(), "list")); err != nil || len(all) > 0 {
		t.Errorf("got %v, %v of a bucket that has gone, want nothing", all, err)
	}
}
