// Package clouds runs the whole manager against the clouds of the real drivers:
// a control plane, the manager as a process, servers that speak the clouds' own
// protocols, and kubelets that join with what their VMs boot with.
package clouds

import (
	"context"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/azure"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/azuretest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/ec2test"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// binaries is the folder with manager and simcloud.
var binaries string

// ec2 is EC2. The manager finds it by the variable with which the SDK takes
// another endpoint, as users of private clouds do it; so it is there before the
// manager starts.
var ec2 *ec2test.Cloud

// arm is Azure's Resource Manager, which the manager finds by a variable, too.
var arm *azuretest.Cloud

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background()) // of clients, which complain of its absence
	code := run(m)
	openstack.StopShared()
	os.Exit(code)
}

func run(m *testing.M) int {
	if _, err := cluster.Find(); err != nil {
		return m.Run() // every test says so
	}
	var err error
	if binaries, err = stack.Build(context.Background()); err != nil {
		println(err.Error())
		return 1
	}
	ec2 = ec2test.New(ec2Settings(), nil)
	server := httptest.NewServer(ec2)
	defer server.Close()
	if err := os.Setenv("AWS_ENDPOINT_URL_EC2", server.URL); err != nil {
		println(err.Error())
		return 1
	}
	stopHetzner, err := serveHetzner()
	defer stopHetzner()
	if err != nil {
		println(err.Error())
		return 1
	}
	dir, err := os.MkdirTemp("", "clouds")
	if err != nil {
		println(err.Error())
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stopGCE, err := serveGCE(dir)
	defer stopGCE()
	if err != nil {
		println(err.Error())
		return 1
	}
	arm = azuretest.New(azureSettings(), time.Now)
	azureServer := httptest.NewServer(arm)
	defer azureServer.Close()
	if err := os.Setenv(azure.EndpointVariable, azureServer.URL); err != nil {
		println(err.Error())
		return 1
	}
	return m.Run()
}
