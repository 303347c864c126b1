package guests

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/process"
	"github.com/capmcm/cluster-api-provider-mcm/test/guests/guestcloud"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// rig is a control plane with a manager, and an OpenStack whose servers are guests.
type rig struct {
	*testing.T
	client.WithWatch // as administrator

	cluster *cluster.Cluster
	cloud   *guestcloud.Cloud
	project *openstack.Project
	began   time.Time
}

// start starts everything but machines.
func start(t *testing.T) *rig {
	t.Helper()
	image := guestcloud.Require(t)
	binaries, err := stack.Build(t.Context())
	r := &rig{T: t, began: time.Now()}
	r.must(err)
	r.startCluster()
	r.startCloud(image)
	r.startManager(binaries)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// step logs how long something took that began at a time.
func (r *rig) step(began time.Time, what string, args ...any) {
	r.Helper()
	r.Logf("%6.1f s  %s", time.Since(began).Seconds(), fmt.Sprintf(what, args...))
}

func (r *rig) startCluster() {
	r.Helper()
	began := time.Now()
	root, err := cluster.Root()
	r.must(err)
	r.cluster = cluster.ForTest(r.T, cluster.Options{
		Controllers: cluster.Controllers("certificatesigningrequest-approving-controller",
			"certificatesigningrequest-signing-controller", "node-lifecycle-controller", "taint-eviction-controller",
			"pod-garbage-collector-controller", "disruption-controller"),
		Manifests: []string{filepath.Join(root, "config", "crd"), filepath.Join("testdata", "bootstrap-rbac.yaml")},
	})
	scheme := runtime.NewScheme()
	r.must(errors.Join(clientgoscheme.AddToScheme(scheme), machinev1.AddToScheme(scheme)))
	r.WithWatch, err = client.NewWithWatch(r.cluster.Config(), client.Options{Scheme: scheme})
	r.must(err)
	r.step(began, "control plane runs")
}

// The classes have the names of their flavors.
const small, large = guestcloud.Small, guestcloud.Large

func (r *rig) startCloud(image string) {
	r.Helper()
	began := time.Now()
	r.cloud = guestcloud.ForTest(r.T, image, r.cluster.URL())
	r.project = r.cloud.Project
	r.step(began, "OpenStack with a real hypervisor runs; image, flavors and network are there")
}

func (r *rig) startManager(binaries string) {
	r.Helper()
	kubeconfig, err := r.cluster.KubeconfigFor(stack.ManagerUser, "system:masters")
	r.must(err)
	process.ForTest(r.T, r.TempDir(), process.Command{
		Name: "manager", Program: filepath.Join(binaries, "cluster-api-provider-mcm"), Args: []string{
			"--control-kubeconfig=" + kubeconfig, "--target-kubeconfig=" + kubeconfig, "--namespace=" + stack.Namespace,
			"--address=127.0.0.1", "--port=" + strconv.Itoa(process.PortForTest(r.T)), "--machine-controller-port=0",
			"--machine-creation-timeout=" + timeout.String(), "--machine-health-timeout=2m",
		},
	})
}

// userData is what the guests boot with, but for the placeholders.
func (r *rig) userData() []byte {
	r.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "user-data.yaml"))
	r.must(err)
	return []byte(strings.NewReplacer(
		"CA-DATA", base64.StdEncoding.EncodeToString(r.cluster.CA()), "SERVER", "https://"+guestcloud.ServiceIP,
	).Replace(string(text)))
}

// secretOf is a class's Secret.
func (r *rig) secretOf() *corev1.Secret {
	r.Helper()
	return &corev1.Secret{Data: map[string][]byte{
		"authURL": []byte(r.project.AuthURL()), "domainName": []byte("Default"), "tenantName": []byte(r.project.Name),
		"username": []byte(r.project.User), "password": []byte(r.project.Password),
		machinev1.UserDataKey: r.userData(),
	}}
}
