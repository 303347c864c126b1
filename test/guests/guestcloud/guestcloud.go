// Package guestcloud starts an OpenStack whose servers are real guests of this machine, for
// tests of machines whose whole life is real.
package guestcloud

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

const (
	// ServiceIP is the address of the Service kubernetes, which the certificate of a test's
	// API server is for. Guests reach it there, at port 443.
	ServiceIP = "10.0.0.1"

	// imageVariable names the environment variable with the folder that test/guests/build
	// prints.
	imageVariable = "GUEST_IMAGE"
)

// The flavors of guests, and their memory. 512 MiB are enough for a node; the rest is for its pods.
const (
	Small          = "guest.small"
	SmallMebibytes = 768
	Large          = "guest.large"
	LargeMebibytes = 1024
)

// ControlPlane is a flavor with the two processors and the memory that kubeadm init wants.
const (
	ControlPlane          = "guest.control-plane"
	controlPlaneMebibytes = 2048
)

// Cloud is an OpenStack with a real hypervisor, and a project in it whose servers reach an API
// server.
type Cloud struct {
	*openstack.Rig
	Project *openstack.Project
}

// Require ends a test that needs guests as a skip that names what is missing, and returns the
// folder with their image.
func Require(t *testing.T) (image string) {
	t.Helper()
	cluster.Require(t)
	openstack.RequireHypervisor(t)
	return Image(t)
}

// Image returns the folder with the image of guests, or ends the test as a skip.
func Image(t testing.TB) string {
	t.Helper()
	image := os.Getenv(imageVariable)
	if image == "" {
		t.Skipf("no image of guests: make guests builds it and sets %s", imageVariable)
	}
	return image
}

// ForTest starts a cloud that ends with the test. Guests boot from the image of a folder, and
// reach the API server of a URL at ServiceIP.
func ForTest(t *testing.T, image, apiServer string) *Cloud {
	t.Helper()
	c := start(t, image)
	must(t, c.Project.Gateway(t.Context(), ServiceIP+"/32"))
	c.listen(t, ServiceIP+":443", To(t, apiServer))
	return c
}

// start starts a cloud whose guests reach nothing yet.
func start(t *testing.T, image string) *Cloud {
	t.Helper()
	rig, err := openstack.Start(t.Context(), openstack.Options{Hypervisor: true, KVM: Accelerated(t)})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(rig.Logs())
		}
		rig.Stop()
	})
	must(t, rig.AddGuest(t.Context(), image))
	must(t, rig.AddFlavor(t.Context(), Small, 1, SmallMebibytes))
	must(t, rig.AddFlavor(t.Context(), Large, 1, LargeMebibytes))
	must(t, rig.AddFlavor(t.Context(), ControlPlane, 2, controlPlaneMebibytes))
	return &Cloud{rig, rig.NewProject(t)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Accelerated reports whether the processor is to run the guests. /dev/kvm is no proof
// of that: there are hosts whose kernel emulates what the processor lacks, in vain.
func Accelerated(t testing.TB) bool {
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

// listen carries the connections to an address in the network of the guests to what dial
// returns, until the test ends.
func (c *Cloud) listen(t *testing.T, address string, dial func(context.Context) (net.Conn, error)) {
	t.Helper()
	listener, err := c.Listen(t.Context(), address)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go Forward(t.Context(), listener, dial)
}

// Forward carries connections to what dial returns, until the listener is closed.
func Forward(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) {
	for {
		from, err := listener.Accept()
		if err != nil {
			return
		}
		go carry(ctx, from, dial)
	}
}

// To dials the host of a URL.
func To(t testing.TB, to string) func(context.Context) (net.Conn, error) {
	t.Helper()
	server, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Host)
	}
}

// carry carries one connection, until one of its ends closes it.
func carry(ctx context.Context, from net.Conn, dial func(context.Context) (net.Conn, error)) {
	to, err := dial(ctx)
	if err != nil {
		_ = from.Close() // who called tries again
		return
	}
	join(from, to)
}

// join carries what two connections say to each other, until one of the ends closes it.
func join(a, b net.Conn) {
	end := func() { _, _ = a.Close(), b.Close() } // both ends learn that it is over
	go func() {
		defer end()
		_, _ = io.Copy(b, a)
	}()
	defer end()
	_, _ = io.Copy(a, b)
}
