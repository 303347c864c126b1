package kubevirttest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// log answers for the kubelet: it has the console of a VM in the log of a container beside it.
func (n *Namespace) log(r *http.Request, pod, _ string) *http.Response {
	if _, err := n.call(r.Context(), http.MethodGet, n.core("pods")+"/"+escape(pod), nil); err != nil {
		return refuse(http.StatusNotFound, "NotFound", `pods "`+pod+`" not found`)
	}
	if r.URL.Query().Get("container") != consoleContainer {
		return refuse(http.StatusBadRequest, "BadRequest", "container is not valid for pod "+pod)
	}
	n.mu.Lock()
	text := n.consoles[strings.TrimPrefix(pod, launcherPrefix)]
	n.mu.Unlock()
	if most, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
		lines := strings.SplitAfter(text, "\n")
		text = strings.Join(lines[max(len(lines)-1-most, 0):], "")
	}
	return answer(http.StatusOK, "text/plain", []byte(text))
}

// act answers for virt-api, which acts on VMs.
func (n *Namespace) act(r *http.Request, name, what string) *http.Response {
	vm, err := n.call(r.Context(), http.MethodGet, n.vms()+"/"+escape(name), nil)
	if err != nil {
		return refuse(http.StatusNotFound, "NotFound", fmt.Sprintf("virtualmachine.kubevirt.io %q not found", name))
	}
	vmi, err := n.call(r.Context(), http.MethodGet, n.instances()+"/"+escape(name), nil)
	if err != nil && what != "start" {
		return refuse(http.StatusNotFound, "NotFound", fmt.Sprintf("virtualmachineinstance.kubevirt.io %q not found", name))
	}
	switch what {
	case "start":
		return n.start(r, vm, vmi)
	case "unpause":
		if vmi.at(pausedAt) == nil {
			return conflict(name, "VMI is not paused")
		}
		return n.done(r, n.instances(), name, Object{"metadata": Object{"annotations": Object{pausedKey: nil}}})
	case "reset":
		if vmi.text("status.phase") != "Running" {
			return refuse(http.StatusInternalServerError, "InternalError", "Failed to reset non-running VMI")
		}
		boots, _ := strconv.Atoi(vmi.text("metadata.annotations." + bootsKey))
		return n.done(r, n.instances(), name, Object{"metadata": Object{"annotations": Object{
			bootsKey: strconv.Itoa(boots + 1),
		}}})
	}
	return answer(http.StatusNotFound, "text/plain", []byte("404: Page Not Found"))
}

// start starts a VM that is halted, or that is started by hand; one that is to run anyway cannot be started.
func (n *Namespace) start(r *http.Request, vm, vmi Object) *http.Response {
	change := Object{"runStrategy": "Always"}
	how := strategy(vm)
	switch {
	case vmi != nil && !ended(vmi):
		return conflict(vm.name(), "VM is already running")
	case how == "Always" || how == "Once":
		return conflict(vm.name(), how+" does not support manual start requests")
	case how == "RerunOnFailure" && vmi != nil && vmi.text("status.phase") == "Failed":
		return conflict(vm.name(), how+" does not support starting VM from failed state")
	case how == "RerunOnFailure" || how == "Manual":
		return n.done(r, n.vms(), vm.name()+"/status", Object{"status": Object{
			"stateChangeRequests": []Object{{"action": "Start"}},
		}})
	case vm.at("spec.running") == false:
		change = Object{"running": true}
	}
	return n.done(r, n.vms(), vm.name(), Object{"spec": change})
}

func (n *Namespace) done(r *http.Request, collection, name string, change Object) *http.Response {
	if _, err := n.call(r.Context(), http.MethodPatch, collection+"/"+name, change); err != nil {
		return refuse(http.StatusInternalServerError, "InternalError", err.Error())
	}
	return answer(http.StatusAccepted, "application/json", nil)
}

func conflict(name, message string) *http.Response {
	return refuse(http.StatusConflict, "Conflict",
		fmt.Sprintf("Operation cannot be fulfilled on virtualmachine.kubevirt.io %q: %s", name, message))
}
