package inframachine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/claims"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// vmOwner is the MCMMachine of a pass as the engine sees it.
type vmOwner struct {
	*Controller
	vm.Records
	p *pass
}

var (
	_ vm.Owner         = vmOwner{}
	_ vm.TagOwner      = vmOwner{}
	_ vm.BootDataOwner = vmOwner{}
	_ vm.Abandoned     = vmOwner{}
)

func (c *Controller) owner(p *pass) vmOwner {
	return vmOwner{c, vm.Records{
		Object: func() client.Object { return p.object },
		Patch: func(ctx context.Context, change func(client.Object)) error {
			return c.patch(ctx, p, func(o *infrav1.MCMMachine) { change(o) })
		},
		Noted:  &p.did.scope,
		Claims: claims.Claims{Live: c.Live, Namespace: c.Namespace}, Cluster: clusterID(p),
	}, p}
}

// Class is the class as the pass observed it.
func (o vmOwner) Class() (class.Resolved, error) { return o.p.seen.class, o.p.seen.classErr }

// Ref identifies the MCMMachine's VM.
func (o vmOwner) Ref() cloud.Ref {
	m := o.p.object
	return cloud.Ref{
		Name: m.Name, OwnerID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID,
		State: m.Annotations[infrav1.CloudStateAnnotation], Created: m.CreationTimestamp.Time, Scope: o.Scope(),
	}
}

// Attempt is foreign where its number was lost: else, only this controller creates VMs for MCMMachines.
func (o vmOwner) Attempt() (number int, foreign bool) {
	return attemptOf(o.p.object), o.p.object.Annotations[machinev1.CreateAttemptAnnotation] == attemptUnknown
}

// Request asks for the Cluster's tags and the Machine's failure domain.
func (o vmOwner) Request() cloud.CreateRequest {
	return cloud.CreateRequest{
		Tags: tags(o.p), Zone: o.p.seen.machine.Spec.FailureDomain,
		Annotations: o.p.object.Spec.NodeTemplate.Annotations, Network: o.p.did.network,
	}
}

// ZonesInUse counts the MCMMachines of the class by the zone that was chosen for them,
// or else by the one that their VM is in.
func (o vmOwner) ZonesInUse(ctx context.Context) (map[string]int, error) {
	var list infrav1.MCMMachineList
	err := o.Client.List(ctx, &list, client.InNamespace(o.p.object.Namespace),
		client.MatchingFields{index.MCMMachineByClass: o.p.usedClass()})
	use := map[string]int{}
	for i := range list.Items {
		m := &list.Items[i]
		if m.DeletionTimestamp.IsZero() && m.UID != o.p.object.UID && className(m) == o.p.usedClass() {
			use[cmp.Or(m.Annotations[machinev1.ZoneAnnotation], m.Status.FailureDomain)]++
		}
	}
	return use, err
}

// ScopesInUse are those of the MCMMachines of the class.
func (o vmOwner) ScopesInUse(ctx context.Context) ([]string, error) {
	var list infrav1.MCMMachineList
	err := o.Client.List(ctx, &list, client.InNamespace(o.p.object.Namespace),
		client.MatchingFields{index.MCMMachineByClass: o.p.usedClass()})
	var used []string
	for i := range list.Items {
		m := &list.Items[i]
		if m.UID != o.p.object.UID && m.Spec.ProviderID != "" && className(m) == o.p.usedClass() {
			used = append(used, m.Annotations[machinev1.CloudScopeAnnotation])
		}
	}
	return used, err
}

// ControlPlane reports whether the Machine is one of a control plane.
func (o vmOwner) ControlPlane() bool { return util.IsControlPlaneMachine(o.p.seen.machine) }

// RecordIntent persists that a VM is about to be created, from which class and with
// which static addresses, and keeps clusterctl from moving the object meanwhile. It fails on a stale
// object, so a cache that does not show a deletion creates nothing.
func (o vmOwner) RecordIntent(ctx context.Context) error {
	return o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		record := vm.RecordForCreate(o.p.seen.class, o.AppliedTags(), !createStarted(m))
		machinev1.SetOrRemoveAnnotation(m, machinev1.AppliedTagsAnnotation, record)
		if vm.KeepsBootData(o.p.seen.class) {
			machinev1.SetAnnotation(m, machinev1.BootDataAnnotation, machinev1.BootDataKept)
		}
		if !createStarted(m) {
			machinev1.SetAnnotation(m, machinev1.CreateAttemptAnnotation, strconv.Itoa(attemptOf(m)))
		}
		machinev1.SetAnnotation(m, infrav1.MadeFromAnnotation, o.p.usedClass())
		machinev1.SetAnnotation(m, capi.BlockMoveAnnotation, "true")
		if addresses := recordOf(o.p.did.network); addresses != "" {
			machinev1.SetAnnotation(m, infrav1.IPAddressesAnnotation, addresses)
		}
	})
}

// OtherClasses are those that the spec names.
func (o vmOwner) OtherClasses(ctx context.Context) ([]class.Resolved, error) {
	m := o.p.object
	return fallback.Others(ctx, o.Client, o.classes.ResolveForClusterAPI,
		fallback.Pool{Namespace: m.Namespace, Classes: m.Spec.ClassNames()}, o.p.usedClass())
}

// RecordClass persists from which class the VM is.
func (o vmOwner) RecordClass(ctx context.Context, name string) error {
	o.NoteScope("")
	return o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		machinev1.SetAnnotation(m, infrav1.MadeFromAnnotation, name)
		delete(m.Annotations, machinev1.CloudScopeAnnotation)
	})
}

// RecordState persists the driver's checkpoint.
func (o vmOwner) RecordState(ctx context.Context, state string) error {
	err := o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		machinev1.SetOrRemoveAnnotation(m, infrav1.CloudStateAnnotation, state)
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// RecordVM persists the providerID in the Node's form, once the cloud knows it.
// When the VM is complete, the intent goes with the same write.
func (o vmOwner) RecordVM(ctx context.Context, made cloud.VM) error {
	if made.NodeProviderID == "" {
		return nil
	}
	return o.patch(ctx, o.p, func(m *infrav1.MCMMachine) {
		if m.Spec.ProviderID == "" {
			m.Spec.ProviderID = made.NodeProviderID
		}
		if made.RetryAfter <= 0 {
			delete(m.Annotations, machinev1.CreateAttemptAnnotation)
			delete(m.Annotations, capi.BlockMoveAnnotation)
			delete(m.Annotations, infrav1.CloudStateAnnotation)
		}
	})
}

// bootstrapDataKey is the entry of a bootstrap Secret that holds the boot data, as
// Cluster API's contract for bootstrap providers says.
const bootstrapDataKey = "value"

// UserData is what the bootstrap provider wrote, packed if it is too large for the
// cloud. The data itself shows whether it is cloud-config or ignition.
func (o vmOwner) UserData(ctx context.Context) (data []byte, spent bool, err error) {
	const field = "spec.bootstrap.dataSecretName"
	machine := o.p.seen.machine
	name := ptr.Deref(machine.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return nil, false, invalidBootstrapData(infrav1.ReasonWaitingForBootstrap, field,
			"is empty; the bootstrap provider fills it in")
	}
	secret := &corev1.Secret{}
	err = o.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, false, invalidBootstrapData(infrav1.ReasonBootstrapNotFound, field,
			fmt.Sprintf("there is no Secret %q; create it, or delete the Machine", name))
	}
	if err != nil {
		return nil, false, fmt.Errorf("read bootstrap Secret %s: %w", name, err)
	}
	if len(secret.Data[bootstrapDataKey]) == 0 {
		return nil, false, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData, field,
			fmt.Sprintf("Secret %q has no entry %q; put the boot data there", name, bootstrapDataKey))
	}
	packed, err := bootstrap.Pack(secret.Data[bootstrapDataKey], o.p.seen.class.Driver.Traits().UserDataMax)
	if err != nil {
		return nil, false, invalidBootstrapData(infrav1.ReasonInvalidBootstrapData,
			fmt.Sprintf("Secret %s[%s]", name, bootstrapDataKey), err.Error())
	}
	return packed, false, nil
}

// invalidBootstrapData is an error about the Machine's boot data.
func invalidBootstrapData(reason, field, message string) error {
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: reason,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + ": " + message),
	}
}
