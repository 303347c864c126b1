package ec2test_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// serve returns a client of the real SDK for c.
func serve(t *testing.T, c *ec2test.Cloud, secret string) *ec2.Client {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return ec2.New(ec2.Options{
		Region: "eu-west-1", BaseEndpoint: &server.URL, HTTPClient: readOnly{server.Client()}, Retryer: awssdk.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(ec2test.KeyID, secret, ""),
	})
}

// readOnly sends bodies that can only be read: the SDK closes them when the answer
// begins, and a transport takes the failure of their WriteTo for one of the connection.
type readOnly struct{ *http.Client }

func (c readOnly) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.Client.Do(r)
}

func input() *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		ImageId: new("ami-1"), InstanceType: types.InstanceTypeM5Large, MinCount: new(int32(1)), MaxCount: new(int32(1)),
		ClientToken: new("t1"),
		NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{
			SubnetId:    new("subnet-a1"),
			DeviceIndex: new(int32(0)),
		}},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance,
			Tags:         []types.Tag{{Key: new("Name"), Value: new("a*b")}},
		}},
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		return e.ErrorCode()
	}
	return fmt.Sprint(err)
}

func TestClientToken(t *testing.T) {
	t.Parallel()
	c := ec2test.New(ec2test.DefaultSettings(), nil)
	client := serve(t, c, ec2test.SecretKey)
	first, err := client.RunInstances(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.RunInstances(t.Context(), input())
	if err != nil || *again.Instances[0].InstanceId != *first.Instances[0].InstanceId {
		t.Errorf("the same token makes another instance: %v", err)
	}
	other := input()
	other.InstanceType = types.InstanceTypeM6gLarge
	if _, err := client.RunInstances(t.Context(), other); codeOf(err) != "IdempotentParameterMismatch" {
		t.Errorf("the same token for something else: got %v", err)
	}
	c.End(*first.Instances[0].InstanceId, "Server.InternalError", "")
	if _, err := client.RunInstances(t.Context(), input()); codeOf(err) != "IdempotentInstanceTerminated" {
		t.Errorf("the token of an instance that is gone: got %v", err)
	}
	if left := c.Ledger(); len(left) != 0 {
		t.Errorf("left: %+v, want nothing: volumes and interfaces go with their instance", left)
	}
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	c := ec2test.New(ec2test.DefaultSettings(), nil)
	client := serve(t, c, "another key")
	if _, err := client.DescribeInstances(t.Context(), nil); codeOf(err) != "SignatureDoesNotMatch" {
		t.Errorf("a wrong key: got %v", err)
	}
	c.Change(func(s *ec2test.Settings) { s.Accounts = nil })
	if _, err := client.DescribeInstances(t.Context(), nil); codeOf(err) != "AuthFailure" {
		t.Errorf("a key that is taken away: got %v", err)
	}
}

func TestStatesAndVisibility(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := ec2test.DefaultSettings()
	s.Boot, s.Shutdown, s.Settle = 10*time.Second, 5*time.Second, 2*time.Second
	c := ec2test.New(s, func() time.Time { return now })
	client := serve(t, c, ec2test.SecretKey)
	out, err := client.RunInstances(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	id := *out.Instances[0].InstanceId
	state := func() string { return look(t.Context(), client, id) }
	steps := []struct {
		wait time.Duration
		want string
	}{{0, "InvalidInstanceID.NotFound"}, {3 * time.Second, "pending"}, {10 * time.Second, "running"}}
	for _, step := range steps {
		if now = now.Add(step.wait); state() != step.want {
			t.Errorf("after %v more: %s, want %s", step.wait, state(), step.want)
		}
	}
	if _, err := client.TerminateInstances(t.Context(),
		&ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil || state() != "shutting-down" {
		t.Errorf("terminated: %v, %s", err, state())
	}
	if now = now.Add(6 * time.Second); state() != "terminated" {
		t.Errorf("later: %s, want terminated", state())
	}
	if now = now.Add(2 * time.Hour); state() != "InvalidInstanceID.NotFound" {
		t.Errorf("much later: %s, want it forgotten", state())
	}
}

func look(ctx context.Context, client *ec2.Client, id string) string {
	out, err := client.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return codeOf(err)
	}
	return string(out.Reservations[0].Instances[0].State.Name)
}

func TestPagesAndFilters(t *testing.T) {
	t.Parallel()
	s := ec2test.DefaultSettings()
	s.PageSize = 2
	c := ec2test.New(s, nil)
	client := serve(t, c, ec2test.SecretKey)
	for _, name := range []string{"a*b", "axb", "a[b", "c"} {
		c.Add(ec2test.Resource{Kind: ec2test.KindInstance, Tags: map[string]string{"Name": name}})
	}
	cases := map[string]int{"a*b": 3, `a\*b`: 1, "a?b": 3, "a[b": 1, "*": 4, "d": 0}
	for pattern, want := range cases {
		got := 0
		pages := ec2.NewDescribeInstancesPaginator(client,
			&ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: new("tag:Name"), Values: []string{pattern}}}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got += len(page.Reservations)
		}
		if got != want {
			t.Errorf("%q finds %d, want %d", pattern, got, want)
		}
	}
}

// TestBuckets: each action has its own, requests that do not filter cost twice as
// much, and some are about instances.
func TestBuckets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := ec2test.DefaultSettings()
	s.Buckets = ec2test.DocumentedBuckets()
	s.Buckets[ec2test.BucketTerminate] = ec2test.Bucket{Max: 8, PerSecond: 1}
	c := ec2test.New(s, func() time.Time { return now })
	client := serve(t, c, ec2test.SecretKey)
	var ids []string
	for range 8 {
		ids = append(ids, c.Add(ec2test.Resource{Kind: ec2test.KindInstance}))
	}
	for _, step := range []struct {
		what string
		call func() error
		want int // calls until EC2 throttles
	}{
		{"looks at everything", func() error { _, err := client.DescribeInstances(t.Context(), nil); return err }, 50},
		{"looks by page", func() error {
			_, err := client.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{MaxResults: new(int32(5))})
			return err
		}, 100},
		{"launches", func() error { _, err := client.RunInstances(t.Context(), input()); return err }, 5},
		{"terminations of four", func() error {
			_, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids[:4]})
			return err
		}, 2},
	} {
		n, err := 0, error(nil)
		for ; err == nil && n <= step.want; n++ {
			err = step.call()
		}
		if n != step.want+1 || codeOf(err) != "RequestLimitExceeded" {
			t.Errorf("%s: %d calls until %v, want %d until they are throttled", step.what, n-1, err, step.want)
		}
		now = now.Add(time.Second / 2)
		if err := step.call(); (err == nil) != (step.want > 2) {
			t.Errorf("%s after half a second: %v", step.what, err)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c := ec2test.New(ec2test.DefaultSettings(), nil)
	client := serve(t, c, ec2test.SecretKey)
	c.Inject(ec2test.Fault{Action: "RunInstances", Code: "InternalError", Status: 500, After: true, Times: 1})
	if _, err := client.RunInstances(t.Context(), input()); codeOf(err) != "InternalError" || len(c.Ledger()) == 0 {
		t.Errorf("a fault after the effect: got %v, %d resources", err, len(c.Ledger()))
	}
}
