package guests

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

const (
	// serviceIP is the address of the Service kubernetes, which the API server's certificate
	// is for. Guests reach the API server at it.
	serviceIP = "10.0.0.1"

	// imageVariable names the environment variable with the folder that test/guests/build
	// prints.
	imageVariable = "GUEST_IMAGE"
)

// rig is a control plane with a manager, and an OpenStack whose servers are guests.
type rig struct {
	*testing.T
	client.WithWatch // as administrator

	cluster *cluster.Cluster
	cloud   *openstack.Rig
	project *openstack.Project
	began   time.Time
}

// requireGuests ends a test that needs guests as a skip that names what is missing.
func requireGuests(t *testing.T) (image string) {
	t.Helper()
	cluster.Require(t)
	openstack.RequireHypervisor(t)
	if image = os.Getenv(imageVariable); image == "" {
		t.Skipf("no image of guests: make guests builds it and sets %s", imageVariable)
	}
	return image
}

// accelerated reports whether the processor is to run the guests. /dev/kvm is no proof
// of that: there are hosts whose kernel emulates what the processor lacks, in vain.
func accelerated(t *testing.T) bool {
	t.Helper()
	if os.Getenv("ACCEL") != "kvm" {
		return false
	}
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !regexp.MustCompile(`\b(vmx|svm)\b`).Match(text) {
		t.Fatalf("ACCEL=kvm, and the processor has neither vmx nor svm: %v", err)
	}
	return true
}

// start starts everything but machines.
func start(t *testing.T) *rig {
	t.Helper()
	image := requireGuests(t)
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

// The flavors of guests, and the classes of their names. 512 MiB are enough for a node; the
// rest is for its pods.
const (
	small = "guest.small"
	large = "guest.large"
)

func (r *rig) startCloud(image string) {
	r.Helper()
	began := time.Now()
	cloud, err := openstack.Start(r.Context(), openstack.Options{Hypervisor: true, KVM: accelerated(r.T)})
	r.must(err)
	r.Cleanup(func() {
		if r.Failed() {
			r.Log(cloud.Logs())
		}
		cloud.Stop()
	})
	r.cloud = cloud
	r.step(began, "OpenStack with a real hypervisor runs")
	began = time.Now()
	r.must(cloud.AddGuest(r.Context(), image))
	r.must(errors.Join(cloud.AddFlavor(r.Context(), small, 768), cloud.AddFlavor(r.Context(), large, 1024)))
	r.project = cloud.NewProject(r.T)
	r.must(r.project.Gateway(r.Context(), serviceIP+"/32"))
	listener, err := cloud.Listen(r.Context(), serviceIP+":443")
	r.must(err)
	r.Cleanup(func() { _ = listener.Close() })
	server, err := url.Parse(r.cluster.URL())
	r.must(err)
	go forward(r.Context(), listener, server.Host)
	r.step(began, "image, flavors and network are there")
}

// forward carries connections to an address, until the listener is closed.
func forward(ctx context.Context, listener net.Listener, to string) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go carry(ctx, from, to)
	}
}

// carry carries one connection, until one of its ends closes it.
func carry(ctx context.Context, from net.Conn, to string) {
	server, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		_ = from.Close() // the guest tries again
		return
	}
	end := func() { _, _ = from.Close(), server.Close() } // both ends learn that it is over
	go func() {
		defer end()
		_, _ = io.Copy(server, from)
	}()
	defer end()
	_, _ = io.Copy(from, server)
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
		"CA-DATA", base64.StdEncoding.EncodeToString(r.cluster.CA()), "SERVER", "https://"+serviceIP,
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
