package machine

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/s3test"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// onAWS is an env whose cloud is EC2 and S3.
type onAWS struct {
	*env
	ec2 *ec2test.Cloud
	s3  *s3test.Store
}

// newAWS has a class of AWS, with further fields, in place of the usual one.
func newAWS(t *testing.T, more string) *onAWS {
	t.Helper()
	w := &onAWS{env: newEnv(t, interceptor.Funcs{})}
	harness.Edit(w.Cluster, smallClass(), func(c *machinev1.MachineClass) {
		c.Provider, c.ProviderSpec.Raw = "AWS", []byte(`{"ami":"ami-1","region":"eu-west-1","machineType":"m5.large",
			"iam":{"name":"nodes"},"networkInterfaces":[{"subnetID":"subnet-a1","securityGroupIDs":["sg-1"]}],`+more+`
			"tags":{"kubernetes.io/cluster/c1":"1","kubernetes.io/role/node":"1"}}`)
	})
	harness.Edit(w.Cluster, smallSecret(), func(s *corev1.Secret) {
		s.Data = map[string][]byte{
			"providerAccessKeyId": []byte(ec2test.KeyID), "providerSecretAccessKey": []byte(ec2test.SecretKey),
			machinev1.UserDataKey: []byte("#cloud-config\nhostname: <<MACHINE_NAME>>\n-----BEGIN PRIVATE KEY-----\n"),
		}
	})
	w.ec2 = ec2test.New(ec2test.DefaultSettings(), w.clock.Now)
	w.s3 = s3test.New(s3test.Settings{
		Region: "eu-west-1", PageSize: 2, Accounts: map[string]s3test.Account{ec2test.KeyID: {Secret: ec2test.SecretKey}},
		Buckets: map[string]s3test.Bucket{"boot-data": {}},
	}, w.clock.Now)
	w.begin()
	return w
}

// begin starts a controller that remembers nothing.
func (w *onAWS) begin() {
	w.Helper()
	driver := aws.NewDriver(aws.Options{
		Transport: cloudtest.HandlerTransport(w.s3.Beside(w.ec2)), Endpoint: "http://ec2.invalid", Now: w.clock.Now,
		S3Endpoint: "http://s3.invalid",
	})
	registry, err := cloud.NewRegistry([]cloud.Driver{driver}, w.clock.Now)
	w.Must(err)
	w.controller = New(Deps{
		Client: w.client, Live: w.client, Target: w.target, Clouds: registry, Clock: w.clock,
		Fence: w.fence, Events: w.events, Options: w.options, Rand: rand.Reader,
	})
}

// pending brings a new machine so far that its VM boots, and returns what that has got.
func (w *onAWS) pending(name string) []byte {
	w.Helper()
	w.create(newMachine(name, w.clock.Now()))
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachinePending })
	for _, r := range w.ec2.Ledger() {
		if r.Kind == ec2test.KindInstance {
			return r.UserData
		}
	}
	w.Fatal("there is no instance")
	return nil
}

const private = `"privateUserData":{"bucket":"boot-data"},`

func TestBootDataIsRemovedWhenTheNodeHasJoined(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	userData := w.pending("m")
	got, err := w.s3.Guest(userData)
	if err != nil || !strings.Contains(string(got), "BEGIN PRIVATE KEY") || strings.Contains(string(userData), "PRIVATE") {
		t.Errorf("the guest boots with %.60q, %v, by user data %.60q", got, err, userData)
	}
	if w.machine("m").Annotations[machinev1.BootDataAnnotation] != machinev1.BootDataKept {
		t.Error("nothing records that S3 keeps the boot data")
	}
	w.begin()
	w.s3.Inject(s3test.Fault{Method: "DELETE", Status: 403, Code: "AccessDenied"})
	w.join(w.machine("m").Labels[machinev1.NodeLabel], corev1.ConditionTrue)
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachineRunning })
	if got := w.condition("m", machinev1.ConditionBootDataRemoved); !strings.HasPrefix(got, "CredentialsRefused: ") {
		t.Errorf("condition %q, want why the boot data is still there", got)
	}
	w.s3.Heal()
	w.settle("m", func() bool { return len(w.s3.Objects()) == 0 })
	if _, kept := w.machine("m").Annotations[machinev1.BootDataAnnotation]; kept {
		t.Error("it is still recorded that S3 keeps the boot data")
	}
	if got := w.condition("m", machinev1.ConditionBootDataRemoved); got != "" {
		t.Errorf("condition %q, want none", got)
	}
	w.s3.Forget()
	for range 3 {
		w.settle("m", func() bool { return true })
	}
	if calls := w.s3.Calls(); len(calls) > 0 {
		t.Errorf("calls in steady state: %v", calls)
	}
}

// Without a target cluster a Machine is Available as soon as its VM runs, which may still have to
// fetch its boot data.
func TestBootDataStaysWithoutTargetCluster(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.target = nil
	w.begin()
	w.create(newMachine("m", w.clock.Now()))
	w.settle("m", func() bool { return w.phase("m") == machinev1.MachineAvailable })
	for range 3 {
		w.pass(time.Minute)
		_, _ = w.reconcile("m")
	}
	if len(w.s3.Objects()) != 1 {
		t.Errorf("%d objects while the VM may boot, want 1", len(w.s3.Objects()))
	}
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	if left := w.s3.Objects(); len(left) > 0 {
		t.Errorf("left behind: %s", left[0].Key)
	}
}

func TestBootDataGoesWithTheVM(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.pending("m")
	w.begin()
	w.delete(w.machine("m"))
	w.settle("m", func() bool { return w.machine("m") == nil })
	if left := w.s3.Objects(); len(left) > 0 {
		t.Errorf("left behind by a machine that never joined: %s", left[0].Key)
	}
}

// What native users have in user data goes on as it is.
func TestKeysInUserDataAreTheUsersChoice(t *testing.T) {
	t.Parallel()
	w := newAWS(t, "")
	if userData := w.pending("m"); !strings.Contains(string(userData), "BEGIN PRIVATE KEY") {
		t.Errorf("user data %.60q, want that of the Secret", userData)
	}
	if _, kept := w.machine("m").Annotations[machinev1.BootDataAnnotation]; kept || len(w.s3.Calls()) > 0 {
		t.Errorf("S3 was called: %v", w.s3.Calls())
	}
}
