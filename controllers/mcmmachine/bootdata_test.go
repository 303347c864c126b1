package mcmmachine

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/s3test"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// canary stands for the key of the cluster's certificate authority.
const canary = "MHcCAQEEIFhDYW5hcnlDYW5hcnlDYW5hcnk="

const kubeadmData = "## template: jinja\n#cloud-config\nwrite_files:\n" +
	"- path: /etc/kubernetes/pki/ca.key\n  content: |\n" +
	"    -----BEGIN EC PRIVATE KEY-----\n    " + canary + "\n    -----END EC PRIVATE KEY-----\n"

// onAWS is an env whose cloud is EC2 and S3.
type onAWS struct {
	*env
	ec2 *ec2test.Cloud
	s3  *s3test.Store
}

// newAWS has a class of AWS, with further fields, in place of the usual one.
func newAWS(t *testing.T, more string) *onAWS {
	t.Helper()
	class := smallClass()
	class.Provider, class.ProviderSpec.Raw = "AWS", []byte(`{"ami":"ami-1","region":"eu-west-1","machineType":"m5.large",
		"iam":{"name":"nodes"},"networkInterfaces":[{"subnetID":"subnet-a1","securityGroupIDs":["sg-1"]}],`+more+`
		"tags":{"kubernetes.io/cluster/c1":"1","kubernetes.io/role/node":"1"}}`)
	secret := fixture.Secret("small", map[string]string{
		"providerAccessKeyId": ec2test.KeyID, "providerSecretAccessKey": ec2test.SecretKey,
	}, fixture.In[*corev1.Secret](namespace))
	w := &onAWS{env: newEnv(t, class, secret)}
	w.ec2 = ec2test.New(ec2test.DefaultSettings(), w.clock.Now)
	w.s3 = s3test.New(s3test.Settings{
		Region: "eu-west-1", PageSize: 2, Accounts: map[string]s3test.Account{ec2test.KeyID: {Secret: ec2test.SecretKey}},
		Buckets: map[string]s3test.Bucket{"boot-data": {}},
	}, w.clock.Now)
	w.driver = func(cloud.Driver) cloud.Driver {
		return aws.NewDriver(aws.Options{
			Transport: cloudtest.HandlerTransport(w.s3.Beside(w.ec2)), Endpoint: "http://ec2.invalid", Now: w.clock.Now,
			S3Endpoint: "http://s3.invalid",
		})
	}
	w.restart()
	return w
}

const private = `"privateUserData":{"bucket":"boot-data"},`

// controlPlane makes machine m of a control plane.
func (w *onAWS) controlPlane() {
	w.Helper()
	const name = "m"
	capi := machine(name)
	capi.Labels[clusterv1.MachineControlPlaneLabel] = ""
	secret := bootstrapSecret(name)
	secret.Data["value"] = []byte(kubeadmData)
	w.create(w.object(name), capi, secret)
}

// join is the node of a machine in the workload cluster.
func (w *onAWS) join(name string) {
	w.Helper()
	w.Must(w.workload.Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: w.get(name).Spec.ProviderID},
	}))
	w.nodeHealthy(name, metav1.ConditionTrue)
}

// userData is that of the only instance that was asked for.
func (w *onAWS) userData() []byte {
	w.Helper()
	for _, call := range w.ec2.Calls() {
		if call.Action == "RunInstances" {
			data, err := base64.StdEncoding.DecodeString(call.Form.Get("UserData"))
			w.Must(err)
			return data
		}
	}
	w.Fatal("no instance was asked for")
	return nil
}

// launches is how often an instance was asked for.
func (w *onAWS) launches() int {
	n := 0
	for _, call := range w.ec2.Calls() {
		if call.Action == "RunInstances" {
			n++
		}
	}
	return n
}

// leaks fails if the canary is in what others read.
func (w *onAWS) leaks(name string) {
	w.Helper()
	seen := w.told()
	for _, call := range w.ec2.Calls() {
		plain, _ := base64.StdEncoding.DecodeString(call.Form.Get("UserData"))
		seen = append(seen, call.Form.Encode(), string(plain))
	}
	if m := w.get(name); m != nil {
		text, err := json.Marshal(m)
		w.Must(err)
		seen = append(seen, string(text))
	}
	for _, text := range seen {
		for _, form := range []string{canary, url.QueryEscape(canary), base64.StdEncoding.EncodeToString([]byte(canary))} {
			if strings.Contains(text, form) {
				w.Errorf("the key is in %.200s", text)
			}
		}
	}
}

func TestBootDataIsRemovedWhenTheNodeHasJoined(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.controlPlane()
	w.settle("m", w.isProvisioned("m"))
	if got, err := w.s3.Guest(w.userData()); err != nil || string(got) != kubeadmData {
		t.Errorf("the guest boots with %.60q, %v, want what the bootstrap provider wrote", got, err)
	}
	if w.get("m").Annotations[machinev1.BootDataAnnotation] != machinev1.BootDataKept {
		t.Error("nothing records that S3 keeps the boot data")
	}
	w.leaks("m")
	w.run("m")
	if len(w.s3.Objects()) != 1 {
		t.Fatalf("%d objects before the node has joined, want 1", len(w.s3.Objects()))
	}
	w.join("m")
	w.restart()
	// What is lost by clusterctl move: the status.
	change(w.env, w.get("m"), func(m *infrav1.MCMMachine) { m.Status = infrav1.MCMMachineStatus{} })
	w.fail = once(errors.New("the API server is away"))
	for range 3 {
		_, _ = w.reconcile("m")
		w.pass(missingVMCheck)
	}
	w.fail = nil
	w.run("m")
	if left := w.s3.Objects(); len(left) > 0 {
		t.Errorf("left behind after the node has joined: %s", left[0].Key)
	}
	if _, kept := w.get("m").Annotations[machinev1.BootDataAnnotation]; kept {
		t.Error("it is still recorded that S3 keeps the boot data")
	}
	if _, err := w.s3.Guest(w.userData()); err == nil {
		t.Error("the boot data can still be fetched")
	}
	w.s3.Forget()
	for range 3 {
		w.pass(w.run("m"))
	}
	if calls := w.s3.Calls(); len(calls) > 0 {
		t.Errorf("calls in steady state: %v", calls)
	}
	w.leaks("m")
}

// once is a fault of one write.
func once(err error) func(client.Object) error {
	return func(client.Object) error { defer func() { err = nil }(); return err }
}

func TestBootDataGoesWithTheVM(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.controlPlane()
	w.settle("m", w.isProvisioned("m"))
	w.s3.Inject(s3test.Fault{Method: "DELETE", Status: 503, Code: "SlowDown", Times: 1})
	w.delete(w.get("m"))
	w.restart()
	w.settle("m", w.gone())
	if left := w.s3.Objects(); len(left) > 0 {
		t.Errorf("left behind by a machine that never joined: %s", left[0].Key)
	}
}

func TestBootDataWithoutVM(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.ec2.Inject(ec2test.Fault{Action: "RunInstances", Code: "InternalError", Status: 500})
	w.controlPlane()
	for range 3 {
		_, _ = w.reconcile("m")
		w.pass(shortRetry)
	}
	if len(w.s3.Objects()) != 1 {
		t.Fatalf("%d objects of an attempt that is under way, want 1", len(w.s3.Objects()))
	}
	w.delete(w.get("m"))
	w.restart() // what the process knew is lost
	w.settle("m", w.gone())
	if left := w.s3.Objects(); len(left) > 0 {
		t.Errorf("left behind by a machine that had no VM: %s", left[0].Key)
	}
}

func TestBootDataThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	w := newAWS(t, private)
	w.controlPlane()
	w.settle("m", w.isProvisioned("m"))
	w.join("m")
	w.s3.Inject(s3test.Fault{Method: "DELETE", Status: 403, Code: "AccessDenied"})
	w.told()
	if wait := w.run("m"); wait <= 0 {
		t.Error("it is not tried again")
	}
	if got := w.condition("m", infrav1.BootDataRemovedCondition); !strings.HasPrefix(got, "False CredentialsRefused: ") {
		t.Errorf("condition %q, want why the boot data is still there", got)
	}
	if told := w.told(); len(told) != 1 {
		t.Errorf("Events %v, want one", told)
	}
	if got := w.condition("m", clusterv1.ReadyCondition); !strings.HasPrefix(got, "True") {
		t.Errorf("Ready is %q, want that nothing else changes", got)
	}
	w.s3.Heal()
	w.pass(w.run("m"))
	if got := w.condition("m", infrav1.BootDataRemovedCondition); got != "" || len(w.s3.Objects()) > 0 {
		t.Errorf("condition %q, %d objects, want none", got, len(w.s3.Objects()))
	}
}

func TestKeysOfAControlPlaneInPlainUserData(t *testing.T) {
	t.Parallel()
	w := newAWS(t, "")
	w.controlPlane()
	for range 3 {
		_, _ = w.reconcile("m")
		w.pass(longRetry)
	}
	got := w.condition("m", infrav1.VMProvisionedCondition)
	for _, want := range []string{
		"False PlainBootData: ", "providerSpec.privateUserData", machinev1.AllowPlainBootDataAnnotation, `"small"`,
	} {
		if !strings.Contains(strings.ReplaceAll(got, "MachineClass small", `MachineClass "small"`), want) {
			t.Errorf("condition %q does not say %s", got, want)
		}
	}
	if w.launches() > 0 {
		t.Error("an instance was asked for")
	}
	w.leaks("m")
	change(w.env, smallClass(), func(c *machinev1.MachineClass) {
		machinev1.SetAnnotation(c, machinev1.AllowPlainBootDataAnnotation, "true")
	})
	w.settle("m", w.isProvisioned("m"))
	if string(w.userData()) != kubeadmData || len(w.s3.Calls()) > 0 {
		t.Errorf("user data %.40q, want it plain as the class allows", w.userData())
	}
}

func TestKeysOfAWorkerAreItsOwn(t *testing.T) {
	t.Parallel()
	w := newAWS(t, "")
	objects := w.newMachine("m")
	i := slices.IndexFunc(objects, func(o client.Object) bool { _, ok := o.(*corev1.Secret); return ok })
	objects[i].(*corev1.Secret).Data["value"] = []byte(kubeadmData)
	w.create(objects...)
	w.settle("m", w.isProvisioned("m"))
	if string(w.userData()) != kubeadmData {
		t.Errorf("user data %.40q, want what the bootstrap provider wrote", w.userData())
	}
}
