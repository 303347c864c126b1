package capi

import (
	"fmt"
	"os"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(klog.Background())
	if err := queue.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	openstack.StopShared()
	if dir, err := scratch(); err == nil {
		_ = os.RemoveAll(dir) // it is in the folder for temporary files
	}
	os.Exit(code)
}
