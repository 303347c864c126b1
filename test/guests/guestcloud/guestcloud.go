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
	if image = os.Getenv(imageVariable); image == "" {
		t.Skipf("no image of guests: make guests builds it and sets %s", imageVariable)
	}
	return image
}

// ForTest starts a cloud that ends with the test. Guests boot from the image of a folder, and
// reach the API server of a URL at ServiceIP.
func ForTest(t *testing.T, image, apiServer string) *Cloud {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rig, err := openstack.Start(t.Context(), openstack.Options{Hypervisor: true, KVM: accelerated(t)})
	must(err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(rig.Logs())
		}
		rig.Stop()
	})
	must(rig.AddGuest(t.Context(), image))
	must(rig.AddFlavor(t.Context(), Small, SmallMebibytes))
	must(rig.AddFlavor(t.Context(), Large, LargeMebibytes))
	c := &Cloud{rig, rig.NewProject(t)}
	must(c.Project.Gateway(t.Context(), ServiceIP+"/32"))
	listener, err := rig.Listen(t.Context(), ServiceIP+":443")
	must(err)
	t.Cleanup(func() { _ = listener.Close() })
	server, err := url.Parse(apiServer)
	must(err)
	go forward(t.Context(), listener, server.Host)
	return c
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
