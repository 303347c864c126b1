package explain

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"regexp"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap/token"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// machine is a native Machine of a pool, five minutes old.
func machine(change ...func(*machinev1.Machine)) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden", Name: "workers-abcde-x2f4d", UID: "uid-m",
		CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Minute)),
		Labels:            map[string]string{machinev1.NameLabel: "workers", machinev1.NodeLabel: "node-1"},
	}}
	m.Spec.Class = machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "workers-v1"}
	for _, f := range change {
		f(m)
	}
	return m
}

// has adds a condition.
func has(kind string, status metav1.ConditionStatus, reason, message string) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) {
		if m.Status.Progress == nil {
			m.Status.Progress = &machinev1.Progress{}
		}
		m.Status.Progress.Conditions = append(m.Status.Progress.Conditions, metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
		})
	}
}

func in(phase machinev1.MachinePhase) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = phase
		m.Status.CurrentStatus.LastUpdateTime = metav1.NewTime(now.Add(-2 * time.Minute))
	}
}

func withVM(m *machinev1.Machine) {
	m.Spec.ProviderID = "sim:///sim-1/vm-1"
	in(machinev1.MachinePending)(m)
	has(machinev1.ConditionVMReady, metav1.ConditionTrue, machinev1.ReasonVMRunning, "The VM exists")(m)
}

func deleting(m *machinev1.Machine) {
	t := metav1.NewTime(now.Add(-time.Minute))
	m.DeletionTimestamp = &t
	in(machinev1.MachineTerminating)(m)
}

// waiting is a machine with a VM whose node has not joined.
func waiting(m *machinev1.Machine) {
	withVM(m)
	has(machinev1.ConditionNodeReady, metav1.ConditionFalse, machinev1.ReasonWaitingForNode, "not joined")(m)
}

func TestWhyMachine(t *testing.T) {
	t.Parallel()
	const no = metav1.ConditionFalse
	class := machinev1.MachineClass{
		ObjectMeta:           metav1.ObjectMeta{Namespace: "garden", Name: "workers-v1"},
		SecretRef:            &corev1.SecretReference{Name: "workers-boot"},
		CredentialsSecretRef: &corev1.SecretReference{Name: "workers-cloud"},
	}
	for name, tc := range map[string]struct {
		machine *machinev1.Machine
		facts   Facts
		step    string // that is missing; empty: none
		reason  string
		concern Concern
		person  bool
		message string
		command string
		next    time.Time
	}{
		"healthy": {machine: machine(withVM, in(machinev1.MachineRunning),
			has(machinev1.ConditionNodeReady, metav1.ConditionTrue, machinev1.ReasonNodeHealthy, "healthy"))},
		"no target cluster": {machine: machine(withVM, in(machinev1.MachineAvailable))},
		"no controller":     {machine: machine(), step: stepVM, reason: reasonNotObserved, concern: Manager},
		"class": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonInvalidSpec, "providerSpec.region: none")),
			step:    stepVM, reason: machinev1.ReasonInvalidSpec, concern: ClassField, person: true,
			message: "providerSpec.region",
			command: "kubectl edit machineclasses.machine.sapcloud.io/workers-v1 -n garden",
		},
		"own field comes before the VM": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonVMPending, ""),
				has(machinev1.ConditionSpecValid, no, machinev1.ReasonInvalidSpec, "spec.class.name")),
			step: stepSpec, reason: machinev1.ReasonInvalidSpec, concern: Spec, person: true, message: "spec.class.name",
			command: "kubectl edit machines.machine.sapcloud.io/workers-abcde-x2f4d -n garden",
		},
		"credentials": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonCredentialsRefused, "AuthFailure")),
			step:    stepVM, reason: machinev1.ReasonCredentialsRefused, concern: Credentials, person: true,
			facts: Facts{Objects: []*Object{OfMachineClass(&class)}}, command: "kubectl edit secret workers-cloud -n garden",
		},
		"Secret without a class": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonInvalidSecret, "no entry accountID")),
			step:    stepVM, reason: machinev1.ReasonInvalidSecret, concern: SecretKey, person: true,
			command: "kubectl edit secret SECRET -n garden",
		},
		"capacity": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonCapacityExhausted, "no host")),
			step:    stepVM, reason: machinev1.ReasonCapacityExhausted, concern: Capacity,
		},
		"quota": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonCapacityExhausted, "Quota exceeded for cores")),
			step:    stepVM, reason: machinev1.ReasonCapacityExhausted, concern: Quota, person: true,
		},
		"conditions that the API server prunes": {
			machine: machine(in(machinev1.MachineCrashLoopBackOff), func(m *machinev1.Machine) {
				m.Status.LastOperation = machinev1.LastOperation{
					Type: machinev1.MachineOperationCreate, State: machinev1.MachineStateFailed,
					Description: "Cloud provider message - no such image",
				}
			}), step: stepVM, reason: reasonCreateFailed, concern: Cloud, message: "no such image",
			next: now.Add(15 * time.Minute),
		},
		"held": {
			machine: machine(waiting, func(m *machinev1.Machine) {
				m.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "h"}
			}), step: stepHold, reason: machinev1.ReasonHeld, concern: Hold, command: "kubectl mcm migrate status -n garden",
		},
		"node": {
			machine: machine(waiting), step: stepJoin, reason: machinev1.ReasonWaitingForNode, concern: Join,
			next: now.Add(15 * time.Minute),
		},
		"a creation timeout of its own": {
			machine: machine(waiting, func(m *machinev1.Machine) {
				m.Spec.MachineConfiguration = &machinev1.MachineConfiguration{
					MachineCreationTimeout: &metav1.Duration{Duration: 7 * time.Minute},
				}
			}), step: stepJoin, reason: machinev1.ReasonWaitingForNode, concern: Join, next: now.Add(2 * time.Minute),
		},
		"valid token that is not used": {
			machine: machine(waiting), facts: tokens(now.Add(time.Hour)), step: stepJoin, reason: machinev1.ReasonWaitingForNode,
			concern: Join, message: "is valid, and no kubelet has used it", next: now.Add(15 * time.Minute),
		},
		"expired token": {
			machine: machine(waiting), facts: tokens(now.Add(-time.Second)), step: stepJoin, reason: reasonTokenExpired,
			concern: Join, person: true, message: "expired at 2026-01-01T11:59:59Z and was not used",
			next: now.Add(15 * time.Minute),
		},
		"no token": {
			machine: machine(waiting), facts: Facts{TokensRead: map[string]bool{token.ID("uid-m", 1): true}}, step: stepJoin,
			reason: machinev1.ReasonWaitingForNode, concern: Join, message: "does not exist", next: now.Add(15 * time.Minute),
		},
		"certificate not approved": {
			machine: machine(waiting), facts: requests("node-1", nil), step: stepJoin, reason: reasonNotApproved, concern: Join,
			person: true, message: "CertificateSigningRequest csr-1", command: "kubectl get csr",
			next: now.Add(15 * time.Minute),
		},
		"certificate approved": {
			machine: machine(waiting), facts: requests("node-1", []byte("x")), step: stepJoin,
			reason: machinev1.ReasonWaitingForNode, concern: Join, message: "the bootstrap token was used",
			next: now.Add(15 * time.Minute),
		},
		"certificate for another name": {
			machine: machine(waiting), facts: requests("localhost", []byte("x")), step: stepJoin, reason: reasonOtherName,
			concern: Join, person: true, message: "asks to join as Node localhost", next: now.Add(15 * time.Minute),
		},
		"node of another name": {
			machine: machine(waiting), facts: Facts{Nodes: []corev1.Node{{
				ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-1"}, Spec: corev1.NodeSpec{ProviderID: "sim:///sim-1a/vm-1"},
			}}}, step: stepJoin, reason: reasonOtherName, concern: Join, person: true, message: "Node ip-10-0-0-1",
			next: now.Add(15 * time.Minute),
		},
		"load balancer before the node": {
			machine: machine(waiting, has(machinev1.ConditionLoadBalancerRegistered, no, machinev1.ReasonRegistering, "busy")),
			step:    stepBalance, reason: machinev1.ReasonRegistering, concern: Cloud, message: "busy",
		},
		"load balancer after the VM": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonVMPending, "pending"),
				has(machinev1.ConditionLoadBalancerRegistered, no, machinev1.ReasonRegistering, "busy")),
			step: stepVM, reason: machinev1.ReasonVMPending, concern: Progress, next: now.Add(15 * time.Minute),
		},
		"registered": {
			machine: machine(waiting, has(machinev1.ConditionLoadBalancerRegistered, metav1.ConditionTrue,
				machinev1.ReasonRegistered, "registered")),
			step: stepJoin, reason: machinev1.ReasonWaitingForNode, concern: Join, next: now.Add(15 * time.Minute),
		},
		"VM that is stopped": {
			machine: machine(has(machinev1.ConditionVMReady, no, machinev1.ReasonVMStopped, "VM stopped")),
			step:    stepVM, reason: machinev1.ReasonVMStopped, concern: Cloud, person: true,
			command: "kubectl delete machines.machine.sapcloud.io/workers-abcde-x2f4d -n garden",
		},
		"turn": {
			machine: machine(withVM, in(machinev1.MachineUnknown), has(machinev1.ConditionNodeReady, no,
				machinev1.ReasonWaitingForTurn, "MachineSet x of the same pool has fewer Machines than it wants")),
			step: stepHealth, reason: machinev1.ReasonWaitingForTurn, concern: Rate, message: "MachineSet x",
			command: "kubectl mcm why machineset/NAME -n garden",
		},
		"API server of the nodes": {
			machine: machine(waiting), facts: Facts{TargetError: "connection refused"}, step: stepJoin,
			reason: reasonTargetError, concern: APIServer, message: "connection refused",
		},
		"unhealthy": {
			machine: machine(withVM, in(machinev1.MachineUnknown),
				has(machinev1.ConditionNodeReady, no, machinev1.ReasonNodeUnhealthy, "kubelet stopped")),
			step: stepHealth, reason: machinev1.ReasonNodeUnhealthy, concern: Health, command: "kubectl describe node node-1",
			next: now.Add(8 * time.Minute),
		},
		"frozen": {
			machine: machine(withVM, in(machinev1.MachineRunning),
				has(machinev1.ConditionNodeReady, no, machinev1.ReasonFrozen, "list Nodes: timeout"),
				func(m *machinev1.Machine) { m.Status.NodeRef = &machinev1.NodeReference{Kind: "Node", Name: "node-1"} }),
			step: stepHealth, reason: machinev1.ReasonFrozen, concern: APIServer,
		},
		"frozen before there is a VM": {
			machine: machine(has(machinev1.ConditionNodeReady, no, machinev1.ReasonFrozen, "list Nodes: timeout")),
			step:    stepVM, reason: machinev1.ReasonFrozen, concern: APIServer,
		},
		"the manager does not know yet that the API server is down": {
			machine: machine(running), facts: Facts{TargetError: "connection refused"}, step: stepHealth,
			reason: reasonTargetError, concern: APIServer, message: "connection refused",
		},
		"outage": {
			machine: machine(withVM, in(machinev1.MachineUnknown),
				has(machinev1.ConditionNodeReady, no, machinev1.ReasonOutage, "3 nodes")),
			step: stepHealth, reason: machinev1.ReasonOutage, concern: Outage,
		},
		"drain": {
			machine: machine(withVM, deleting, has(machinev1.ConditionDrained, no, machinev1.ReasonEvictionDenied, "budget web"),
				has(machinev1.ConditionDeleted, no, machinev1.ReasonEvictionDenied, "budget web")),
			step: stepDrain, reason: machinev1.ReasonEvictionDenied, concern: Drain, message: "budget web",
			command: "kubectl get poddisruptionbudgets -A", next: now.Add(119 * time.Minute),
		},
		"a paused drain is an outage": {
			machine: machine(withVM, deleting, has(machinev1.ConditionDeleted, no, machinev1.ReasonOutage, "3 nodes")),
			step:    stepDrain, reason: machinev1.ReasonOutage, concern: Outage, next: now.Add(119 * time.Minute),
			command: "kubectl get nodes",
		},
		"VM that goes": {
			machine: machine(withVM, deleting,
				has(machinev1.ConditionDrained, metav1.ConditionTrue, machinev1.ReasonDrained, ""),
				has(machinev1.ConditionDeleted, no, machinev1.ReasonDeletingVM, "disk vol-1")),
			step: stepDelete, reason: machinev1.ReasonDeletingVM, concern: Cloud, message: "disk vol-1",
		},
		"a reason of another project": {
			machine: machine(has(machinev1.ConditionVMReady, no, "Elsewhere", "words")), step: stepVM, reason: "Elsewhere",
			concern: Unknown, message: "words",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.facts
			o := OfMachine(tc.machine)
			f.Now, f.Objects = now, append(f.Objects, o)
			got := f.Why(o)
			if tc.step == "" {
				if got.Missing != nil {
					t.Fatalf("it lacks %+v, want nothing", got.Missing)
				}
				return
			}
			m := got.Missing
			if m == nil {
				t.Fatalf("nothing is missing: %+v", got.Steps)
			}
			if step := missingStep(got); step != tc.step {
				t.Errorf("step %q is missing, want %q", step, tc.step)
			}
			if m.Reason != tc.reason || m.Concern != tc.concern || m.NeedsPerson != tc.person {
				t.Errorf("%s, concern %s, person %v; want %s, %s, %v", m.Reason, m.Concern, m.NeedsPerson, tc.reason, tc.concern,
					tc.person)
			}
			if !strings.Contains(m.Message, tc.message) {
				t.Errorf("message %q lacks %q", m.Message, tc.message)
			}
			if all := strings.Join(m.Commands, "\n"); !strings.Contains(all, tc.command) || unfilled.MatchString(all) {
				t.Errorf("commands %q lack %q, or have placeholders", all, tc.command)
			}
			if (m.NextTime == nil) != tc.next.IsZero() || m.NextTime != nil && !m.NextTime.Time.Equal(tc.next) {
				t.Errorf("ends at %v, want %v", m.NextTime, tc.next)
			}
		})
	}
}

// unfilled matches a placeholder that stayed.
var unfilled = regexp.MustCompile(`\{[a-z]+\}`)

// missingStep is the only step that is missing; all after it are for later.
func missingStep(e Explanation) string {
	found := ""
	for _, s := range e.Steps {
		switch {
		case s.State == StepMissing && found == "":
			found = s.Name
		case found != "" && s.State != StepLater:
			return "two: " + found + " and " + s.Name
		}
	}
	return found
}

// tokens are facts with the machine's token.
func tokens(expires time.Time) Facts {
	id := token.ID("uid-m", 1)
	return Facts{Tokens: map[string]Token{id: {Expires: expires}}, TokensRead: map[string]bool{id: true}}
}

// requests are facts with a request for a certificate by the machine's token.
func requests(node string, certificate []byte) Facts {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: nodeUser + node}}, key)
	r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr-1"}}
	r.Spec.Username = tokenUser + token.ID("uid-m", 1)
	r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	r.Status.Certificate = certificate
	return Facts{Requests: []certificatesv1.CertificateSigningRequest{r}}
}
