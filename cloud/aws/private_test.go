package aws_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/s3test"
)

const (
	bucket     = "example-boot-data"
	s3Endpoint = "http://s3.invalid"
)

// private is a class whose boot data is kept in a bucket.
func private() spec { return spec{"privateUserData": spec{"bucket": bucket, "prefix": "boot"}} }

func newS3(now *clock) *s3test.Store {
	return s3test.New(s3test.Settings{
		Region: "eu-west-1", PageSize: 2,
		Accounts: map[string]s3test.Account{ec2test.KeyID: {Secret: ec2test.SecretKey}},
		Buckets:  map[string]s3test.Bucket{bucket: {Owner: "123456789012"}},
	}, now.Now)
}

// hosts sends requests to S3 or to EC2.
type hosts struct{ s3, ec2 http.RoundTripper }

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Host, "s3.") || strings.Contains(r.URL.Host, ".s3.") {
		return h.s3.RoundTrip(r)
	}
	return h.ec2.RoundTrip(r)
}

// classifyBoth says what a request of EC2 or of S3 asks for.
func classifyBoth(r *http.Request, body []byte) cloudtest.Call {
	if strings.HasPrefix(r.URL.Host, "s3.") {
		return cloudtest.Call{Op: r.Method + "Object", Mutates: r.Method == http.MethodPut || r.Method == http.MethodDelete}
	}
	return classify(r, body)
}

// privateFixture is the fixture of classes that keep their boot data private.
func privateFixture(t testing.TB, now *clock) *cloudtest.Fixture {
	t.Helper()
	f := fixture(t, private(), inProcess, now)
	store := newS3(now)
	ec2 := f.Backend
	proxy := cloudtest.NewProxy(hosts{s3: cloudtest.HandlerTransport(store), ec2: ec2.Proxy}, classifyBoth)
	f.Driver = func() cloud.Driver {
		return aws.NewDriver(aws.Options{
			Transport: proxy, Endpoint: "http://ec2.invalid", S3Endpoint: s3Endpoint, Now: now.Now, Window: window,
		})
	}
	for name, of := range f.Others {
		f.Others[name] = withBucket(of)
	}
	f.Broken = withBucket(f.Broken)
	f.Backend.Proxy = proxy
	f.Backend.Ledger = func(t testing.TB) []cloud.Resource {
		all := ec2.Ledger(t)
		for _, o := range store.Objects() {
			all = append(all, cloud.Resource{
				Kind: bootdata.Kind, ID: o.Key, MachineName: o.Tags.Get("Name"), OwnerID: o.Tags.Get(ownerTag),
			})
		}
		return all
	}
	f.Backend.UserData = func(t testing.TB, id string) []byte {
		got, err := store.Guest(ec2.UserData(t, id))
		if err != nil {
			t.Errorf("the guest gets no boot data: %v", err)
		}
		return got
	}
	f.Backend.Seed = func(t testing.TB, s cloudtest.Seed) string {
		if s.Kind != bootdata.Kind {
			return ec2.Seed(t, s)
		}
		return leftBehind(store, now, s)
	}
	f.Backend.Revoke = func(t testing.TB) {
		ec2.Revoke(t)
		store.Change(func(s *s3test.Settings) { s.Accounts = nil })
	}
	return f
}

// withBucket is a class that keeps its boot data private, too.
func withBucket(c cloud.ClassInput) cloud.ClassInput {
	const field = `,"privateUserData":{"bucket":"` + bucket + `","prefix":"boot"}}`
	c.Spec = []byte(strings.TrimSuffix(string(c.Spec), "}") + field)
	return c
}

func TestPrivateConformance(t *testing.T) {
	t.Parallel()
	h := harness(private(), inProcess)
	h.New = func(t testing.TB) *cloudtest.Fixture { return privateFixture(t, newClock()) }
	h.Errors, h.Unrecorded = privateErrors(), true // the row of AWS is that of TestConformance
	cloudtest.Run(t, h)
}

// keyOf is the key of a machine's object, as package bootdata documents it.
func keyOf(prefix string, ownership []string, ownerID, name, cluster, token string) string {
	hash := sha256.Sum256([]byte(strings.Join(ownership, "\n")))
	return fmt.Sprintf("%s/%x/%s/%s/%s/%s", prefix, hash[:8], ownerID, name, cluster, token)
}

// leftBehind puts an object into the bucket that another process has left behind.
func leftBehind(store *s3test.Store, now *clock, s cloudtest.Seed) string {
	ownership := strings.Fields(s.Class.Owner)[1:]
	tags := url.Values{"Name": {s.Name}, ownerTag: {s.OwnerID}}
	o := s3test.Object{
		Bucket: bucket, Key: keyOf("boot", ownership, s.OwnerID, s.Name, "-", "token"), Content: []byte("#cloud-config"),
		Tags: tags, Made: now.Now().Add(-s.Age),
	}
	store.Add(o)
	return o.Key
}

func ofS3(c cloudtest.Call) bool { return strings.HasSuffix(c.Op, "Object") }

// privateErrors are the errors of EC2, and what S3 answers.
func privateErrors() []cloudtest.ErrorRow {
	// C18 takes the first row that throttles, and lets every call meet it: both can read it.
	const item = "<Code>ThrottlingException</Code><Message>slowly</Message>"
	all := []cloudtest.ErrorRow{{
		Name: "create at both", Op: "create", Code: cloud.Throttled, Reason: "ThrottlingException",
		Reply: cloudtest.Reply{Status: 503, Body: "<Error>" + item + "<Errors><Error>" + item + "</Error></Errors></Error>"},
	}}
	add := func(op string, status int, code cloud.Code, names string) {
		for name := range strings.FieldsSeq(names) {
			all = append(all, cloudtest.ErrorRow{
				Name: "S3 " + op + " " + name, Op: op, Code: code, Match: ofS3, Reason: name,
				Reply: cloudtest.Reply{Status: status, Body: "<Error><Code>" + name + "</Code><Message>no</Message></Error>"},
			})
		}
	}
	add("create", 503, cloud.Throttled, "SlowDown")
	add("create", 500, cloud.Unavailable, "InternalError OperationAborted")
	add("create", 409, cloud.Unavailable, "ConditionalRequestConflict")
	add("create", 404, cloud.Invalid, "NoSuchBucket")
	add("create", 301, cloud.Invalid, "PermanentRedirect")
	add("create", 400, cloud.Invalid, "AuthorizationHeaderMalformed")
	add("create", 403, cloud.Denied, "AccessDenied InvalidAccessKeyId SignatureDoesNotMatch RequestTimeTooSkewed")
	add("create", 400, cloud.Denied, "ExpiredToken KMS.DisabledException")
	add("list", 403, cloud.Denied, "AccessDenied")
	add("list", 503, cloud.Throttled, "SlowDown")
	for _, row := range errorRows() {
		mutates := row.Op == "create" || row.Op == "delete"
		row.Match = func(c cloudtest.Call) bool { return !ofS3(c) && (c.Mutates || !mutates) }
		all = append(all, row)
	}
	return all
}

// seen notes the hosts of requests, and answers none.
type seen struct{ hosts []string }

func (s *seen) RoundTrip(r *http.Request) (*http.Response, error) {
	s.hosts = append(s.hosts, r.URL.Scheme+"://"+r.URL.Host)
	return nil, errors.New("no network")
}

func TestHostsOfBuckets(t *testing.T) {
	t.Parallel()
	for region, want := range map[string]string{
		"eu-west-1":     "https://example-boot-data.s3.eu-west-1.amazonaws.com",
		"us-east-1":     "https://example-boot-data.s3.us-east-1.amazonaws.com",
		"us-gov-west-1": "https://example-boot-data.s3.us-gov-west-1.amazonaws.com",
		"cn-north-1":    "https://example-boot-data.s3.cn-north-1.amazonaws.com.cn",
		"us-iso-east-1": "https://example-boot-data.s3.us-iso-east-1.c2s.ic.gov",
		"mars-north-1":  "https://example-boot-data.s3.mars-north-1.amazonaws.com",
	} {
		network := &seen{}
		d := aws.NewDriver(aws.Options{Transport: network})
		c, _ := d.Parse(class("small", edit(private(), spec{"region": region})))
		a, err := d.Open(t.Context(), c, credentials())
		if err != nil {
			t.Fatal(err)
		}
		r := cloud.Ref{Name: "m", OwnerID: "o", Class: c}
		if err := cloud.RemoveBootData(t.Context(), a, r); cloud.CodeOf(err) != cloud.Unavailable {
			t.Errorf("%s: got %v, want Unavailable", region, err)
		}
		if len(network.hosts) != 1 || network.hosts[0] != want {
			t.Errorf("%s: called %v, want %s", region, network.hosts, want)
		}
	}
}

func TestPrivateUserDataIsChecked(t *testing.T) {
	t.Parallel()
	d := aws.NewDriver(aws.Options{})
	for name, tc := range map[string]struct {
		value any
		field string // empty: nothing is wrong
	}{
		"Bucket":     {spec{"bucket": "a-bucket"}, ""},
		"All":        {spec{"bucket": "a-bucket", "prefix": "a/b", "expiry": "168h", "bucketOwner": "123456789012"}, ""},
		"NoBucket":   {spec{}, "bucket"},
		"Dots":       {spec{"bucket": "a.bucket"}, "bucket"},
		"Host":       {spec{"bucket": "a/b"}, "bucket"},
		"Upper":      {spec{"bucket": "A-bucket"}, "bucket"},
		"Slash":      {spec{"bucket": "a-bucket", "prefix": "/a"}, "prefix"},
		"Owner":      {spec{"bucket": "a-bucket", "bucketOwner": "me"}, "bucketOwner"},
		"NoTime":     {spec{"bucket": "a-bucket", "expiry": "soon"}, "expiry"},
		"TooShort":   {spec{"bucket": "a-bucket", "expiry": "1m"}, "expiry"},
		"TooLong":    {spec{"bucket": "a-bucket", "expiry": "200h"}, "expiry"},
		"WrongType":  {"a-bucket", ""},
		"WrongValue": {spec{"bucket": 7}, "bucket"},
	} {
		c, problems := d.Parse(class("small", spec{"privateUserData": tc.value}))
		if _, private := d.PrivateBootData(c); !private && name != "WrongType" {
			t.Errorf("%s: a class that says it wrong counts as one that does not want it", name)
		}
		var found []string
		for _, p := range problems {
			if p.Severity > cloud.Warning {
				found = append(found, p.Field)
			}
			if p.Severity == cloud.BlocksAll {
				t.Errorf("%s: %v, want that deletions go on", name, p)
			}
		}
		want := "providerSpec.privateUserData"
		if tc.field != "" {
			want += "." + tc.field
		}
		var wanted []string
		if tc.field != "" || name == "WrongType" {
			wanted = []string{want}
		}
		if !slices.Equal(found, wanted) {
			t.Errorf("%s: problems with %v, want %v", name, found, wanted)
		}
	}
}

// TestRemoveBootDataConverges loses requests and answers of a removal; another process goes on.
func TestRemoveBootDataConverges(t *testing.T) {
	t.Parallel()
	for _, kind := range []cloudtest.FaultKind{cloudtest.DropRequest, cloudtest.DropResponse, cloudtest.Truncate} {
		f := privateFixture(t, newClock())
		c, _ := f.Driver().Parse(f.Class)
		open := func() cloud.Account {
			a, err := f.Driver().Open(t.Context(), c, f.Credentials)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		for _, name := range []string{"m", "other"} {
			for _, token := range []string{"1", "2", "3"} {
				_, err := open().Create(t.Context(), cloud.CreateRequest{
					Ref: cloud.Ref{Name: name, OwnerID: "owner-" + name, Class: c}, Token: name + token,
					UserData: []byte("#cloud-config"),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		ref := cloud.Ref{Name: "m", OwnerID: "owner-m", Class: c}
		for range 4 { // two pages of keys, and three objects
			fault := f.Backend.Proxy.Inject(cloudtest.Fault{Kind: kind, Match: ofS3})
			if err := cloud.RemoveBootData(t.Context(), open(), ref); cloud.CodeOf(err) != cloud.Unavailable {
				t.Logf("%v: removed with %v", kind, err)
			}
			fault.Undo()
		}
		if err := cloud.RemoveBootData(t.Context(), open(), ref); err != nil {
			t.Errorf("%v: %v", kind, err)
		}
		owners := map[string]int{}
		vms := 0
		for _, r := range f.Backend.Ledger(t) {
			if r.Kind == bootdata.Kind {
				owners[r.OwnerID]++
			}
			if r.Kind == cloud.KindVM {
				vms++
			}
		}
		if owners["owner-m"] != 0 || owners["owner-other"] != 3 || vms != 6 {
			t.Errorf("%v: objects by owner %v and %d VMs, want those of the other machine and all VMs", kind, owners, vms)
		}
	}
}
