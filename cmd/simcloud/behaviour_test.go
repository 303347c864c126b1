package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

func testTokenTooLate(s *suite) {
	c := s.start()
	vm := c.create("node-t", s.userData("node-t", "tttttt.0123456789abcdef"))
	s.until("the console says why the VM does not join", func() error {
		if text := c.console(vm.ID); !strings.Contains(text, "Unauthorized") {
			return errors.New(text)
		}
		return nil
	})
	if text := c.console(vm.ID); strings.Contains(text, "0123456789abcdef") {
		s.Errorf("the console shows the token: %s", text)
	}
	s.token("tttttt")
	s.condition("node-t", corev1.NodeReady, corev1.ConditionTrue)
}

func testBehaviour(s *suite) {
	c := s.start()
	token := s.token("bbbbbb")
	vm := c.create("node-b", s.userData("node-b", token, "join: never"))
	for _, bad := range [][]byte{
		nil, []byte("\x1f\x8bno gzip"), []byte("- a list"),
		s.userData("bad", "<<BOOTSTRAP_TOKEN>>"),
	} {
		name := fmt.Sprintf("bad-%d", len(bad))
		id := c.create(name, bad).ID
		s.until("the console says what is wrong", func() error {
			if text := c.console(id); !strings.Contains(text, "does not join") {
				return errors.New("console: " + text)
			}
			return nil
		})
	}
	if _, err := s.node("node-b"); !apierrors.IsNotFound(err) {
		s.Errorf("a VM that never joins has a node: %v", err)
	}
	kubelet := "/admin/vms/" + vm.ID + "/kubelet"
	c.admin(http.MethodPatch, kubelet, `{"join":"always","ready":false}`, nil)
	s.condition("node-b", corev1.NodeReady, corev1.ConditionFalse)
	c.admin(http.MethodPatch, kubelet, `{"ready":true,"conditions":{"DiskPressure":"True"}}`, nil)
	s.condition("node-b", corev1.NodeReady, corev1.ConditionTrue)
	s.condition("node-b", corev1.NodeDiskPressure, corev1.ConditionTrue)
	var shown shownKubelet
	c.admin(http.MethodGet, kubelet, "", &shown)
	if !shown.Running || shown.Joined.IsZero() || shown.NodeName != "node-b" {
		s.Errorf("kubelet is shown as %+v", shown)
	}

	// What kube-controller-manager does to a node whose Leases came late.
	unknown := `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`
	_, err := s.client.CoreV1().Nodes().Patch(s.Context(), "node-b", types.StrategicMergePatchType, []byte(unknown),
		metav1.PatchOptions{}, "status")
	if err != nil {
		s.Fatal(err)
	}
	s.condition("node-b", corev1.NodeReady, corev1.ConditionTrue)
}

func testRestart(s *suite) {
	state := "--state=" + filepath.Join(s.TempDir(), "state")
	c := s.start(state, "--delete-time=1s")
	stays, goes := c.create("node-r", s.userData("node-r", s.token("rrrrrr"))), c.create("node-s",
		s.userData("node-s", s.token("ssssss")))
	s.condition("node-r", corev1.NodeReady, corev1.ConditionTrue)
	s.condition("node-s", corev1.NodeReady, corev1.ConditionTrue)
	c.remove(goes)
	c.stop()
	for _, id := range []string{"rrrrrr", "ssssss"} {
		if err := s.client.CoreV1().Secrets("kube-system").Delete(s.Context(), "bootstrap-token-"+id,
			metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	c = s.start(state)
	s.nodeGone("node-s")
	s.leaseMoves("node-r")
	var ledger []sim.Resource
	c.admin(http.MethodGet, "/admin/ledger?kind=vm", "", &ledger)
	if len(ledger) != 2 || ledger[0].ID != stays.ID || ledger[1].VM.State != sim.StateGone {
		s.Errorf("the ledger is %+v, want both VMs and the second one gone", ledger)
	}
	c.remove(stays)
	s.nodeGone("node-r")
}

func testForeignNode(s *suite) {
	_, err := s.client.CoreV1().Nodes().Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-f"}, Spec: corev1.NodeSpec{ProviderID: "sim:///sim-1b/vm-other"},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	c := s.start()
	vm := c.create("node-f", s.userData("node-f", s.token("ffffff")))
	s.until("the console says that another node stands in the way", func() error {
		if text := c.console(vm.ID); !strings.Contains(text, "vm-other") {
			return errors.New(text)
		}
		return nil
	})
	c.remove(vm)
	s.until("the kubelet is forgotten", func() error {
		if status, text := c.ask(http.MethodGet, "/admin/vms/"+vm.ID+"/kubelet", ""); status != http.StatusNotFound {
			return errors.New(string(text))
		}
		return nil
	})
	if _, err := s.node("node-f"); err != nil {
		s.Errorf("the node of another VM: %v", err)
	}
}

// testLostVM lets the cloud take a VM away.
func testLostVM(s *suite) {
	c := s.start("--delete-time=200ms")
	vm := c.create("node-l", s.userData("node-l", s.token("llllll")))
	s.condition("node-l", corev1.NodeReady, corev1.ConditionTrue)
	c.admin(http.MethodPost, "/admin/vms/"+vm.ID+"/stop", "", nil)
	var shown shownKubelet
	s.until("the kubelet stops with its VM", func() error {
		if c.admin(http.MethodGet, "/admin/vms/"+vm.ID+"/kubelet", "", &shown); shown.Running {
			return errors.New("it runs")
		}
		return nil
	})
	c.admin(http.MethodPost, "/admin/vms/"+vm.ID+"/start", "", nil)
	s.leaseMoves("node-l")
	c.admin(http.MethodPost, "/admin/vms/"+vm.ID+"/reclaim", "", nil)
	s.nodeGone("node-l")
}
