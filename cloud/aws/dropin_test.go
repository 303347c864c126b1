package aws_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
)

// TestTokenFileGoesFirst: beside an access key the web identity counts, as with MCM's driver. An entry that is empty
// names no token.
func TestTokenFileGoesFirst(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"token": 1, "": 0} {
		w := newEnv(t)
		logins := w.withSTS("AssumeRoleWithWebIdentity", func(url.Values) {})
		creds := credentials()
		creds["workloadIdentityTokenFile"], creds["roleARN"] = []byte(" "), []byte("arn:aws:iam::123456789012:role/r")
		if name != "" {
			file := filepath.Join(w.tokens, name)
			if err := os.WriteFile(file, []byte("a-web-identity-token"), 0o600); err != nil {
				t.Fatal(err)
			}
			creds["workloadIdentityTokenFile"] = []byte(file)
		}
		a, c := w.open(class("c", nil), creds)
		_, err := a.Get(t.Context(), w.request(c, 1).Ref)
		if got := int64(logins.Load()); got != want {
			t.Errorf("token file %q: %d logins with it, want %d (%v)", name, got, want, err)
		}
	}
	problems := aws.NewDriver(newEnv(t).options).CheckSecret(cloud.Class{}, cloud.Credentials{
		"providerAccessKeyId": []byte("id"), "providerSecretAccessKey": []byte("key"),
		"workloadIdentityTokenFile": []byte("/var/run/token"),
	})
	if len(problems) == 0 || problems[0].Field != "secret.roleARN" {
		t.Errorf("a token without a role beside an access key: got %v, want roleARN named", problems)
	}
}

// TestEmptyPages: EC2 looks through a part of what it has for a page, and a page with nothing that fits has a token.
func TestEmptyPages(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Change(func(s *ec2test.Settings) { s.EmptyPages = true })
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := a.Get(t.Context(), r.Ref); err != nil || found.ID != vm.ID {
		t.Errorf("get: %+v, %v", found, err)
	}
	kinds := map[cloud.Kind]int{}
	for found, err := range a.List(t.Context(), c) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[found.Kind]++
	}
	if len(kinds) != 3 {
		t.Errorf("list: got %v, want the VM, its disk and its interface", kinds)
	}
	for range 20 {
		d, err := a.Delete(t.Context(), r.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if d.Done {
			break
		}
		w.now.Advance(d.RetryAfter)
	}
	if left := w.cloud.Ledger(); len(left) > 0 {
		t.Errorf("left behind: %+v", left)
	}
}

// TestInterfaceInUse: an interface that is attached again, or still, when it is deleted is waited for. EC2's code for
// that is the one of wrong parameters.
func TestInterfaceInUse(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	w.cloud.Add(ec2test.Resource{Kind: ec2test.KindInterface, Tags: map[string]string{
		"kubernetes.io/cluster/c1": "1", "kubernetes.io/role/node": "1", "Name": r.Name, ownerTag: r.OwnerID,
		cloud.OnTerminationTag: string(cloud.RetentionDelete),
	}})
	w.cloud.Inject(ec2test.Fault{
		Action: "DeleteNetworkInterface", Code: "InvalidParameterValue", Times: 1,
		Message: "Network interface 'eni-00000000000000001' is currently in use.",
	})
	if _, err := a.Delete(t.Context(), r.Ref); cloud.CodeOf(err) != cloud.Unavailable {
		t.Errorf("got %v, want Unavailable: it passes", err)
	}
	if d, err := a.Delete(t.Context(), r.Ref); err != nil || d.Done && d.Found {
		t.Errorf("again: %+v, %v", d, err)
	}
}

// TestNoPrivateName: an instance that runs and has no private DNS name has no node name. After some minutes the
// state says what its VPC lacks.
func TestNoPrivateName(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.ProviderID = vm.ProviderID
	w.cloud.Edit(vm.ID, func(r *ec2test.Resource) { r.NoDNS = true })
	for age, named := range map[time.Duration]bool{time.Minute: false, 4 * time.Minute: true} {
		w.cloud.Edit(vm.ID, func(r *ec2test.Resource) { r.Made = w.now.Now().Add(-age) })
		vm, err := a.Get(t.Context(), r.Ref)
		if err != nil || vm.State != cloud.StatePending || strings.Contains(vm.Message, "enableDnsHostnames") != named {
			t.Errorf("after %v: %v, %q, %v", age, vm.State, vm.Message, err)
		}
	}
}

// TestEndedLaunch: an instance that EC2 ends before it ran is going, and says why once.
func TestEndedLaunch(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class("c", nil), credentials())
	r := w.request(c, 1)
	vm, err := a.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	r.ProviderID = vm.ProviderID
	w.cloud.End(vm.ID, "Client.InternalError", "Client.InternalError: Client error on launch")
	vm, err = a.Create(t.Context(), r)
	if err != nil || vm.State != cloud.StateDeleting || vm.Reason != "Client.InternalError" ||
		vm.Message != "Client error on launch" {
		t.Errorf("got %+v, %v", vm, err)
	}
	if _, err := a.Get(t.Context(), r.Ref); !errors.As(err, new(*cloud.Error)) {
		t.Errorf("get: %v", err)
	}
}
