package class

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// nativeUsers is why clusterctl may not move a class: Machines of the native API
// do not move along.
const nativeUsers = "machines of machine.sapcloud.io use this class"

// clusterAPI protects what MCMMachines use. The API server confirms that there are none
// before a class loses its finalizer. A Secret stays for classes that are in use and may
// use it.
func clusterAPI(d Deps) api {
	inUse := func(class *machinev1.MachineClass) bool {
		return slices.Contains(class.Finalizers, machinev1.InUseFinalizer)
	}
	return api{
		classController: "mcmclass", secretController: "mcmsecret",
		classFinalizer: machinev1.InUseFinalizer, secretFinalizer: machinev1.InUseFinalizer,
		kind: "MCMMachine",
		users: finder[infrav1.MCMMachineList, *infrav1.MCMMachineList]{
			cached: d.Client, live: d.Live, index: index.MCMMachineByClass,
			uses: func(o client.Object, class string) bool {
				return slices.Contains(index.ClassesOf(o.(*infrav1.MCMMachine)), class)
			},
			confirm: inUse,
		}.find,
		secretUser: func(of *machinev1.MachineClass, secret *corev1.Secret) string {
			if !inUse(of) || of.Namespace != secret.Namespace && !class.Allows(secret, of.Namespace) {
				return ""
			}
			return of.Name
		},
		secretWaits: "Deletion waits for MachineClass %s, which names this Secret and is in use; " +
			"delete its MCMMachines, or wait",
		moves: true, repeats: true,
		watch: func(_ *Controller, b *builder.Builder) {
			b.Watches(&infrav1.MCMMachine{}, watch.Named(func(m *infrav1.MCMMachine) []client.ObjectKey {
				return keys(m.Namespace, index.ClassesOf(m))
			})).Watches(&infrav1.MCMMachineTemplate{}, watch.Named(func(t *infrav1.MCMMachineTemplate) []client.ObjectKey {
				return keys(t.Namespace, index.TemplateClasses(t))
			}))
		},
	}
}

// markForMove has clusterctl move a class that machines use or a template names, and
// refuse that while Machines of the native API use it, too. The label is never removed:
// it may be the user's, and the bootstrap provider marks what its templates name.
func (c *Controller) markForMove(ctx context.Context, object *machinev1.MachineClass, used bool) error {
	if !used {
		var list infrav1.MCMMachineTemplateList
		err := c.Client.List(ctx, &list, client.InNamespace(object.Namespace),
			client.MatchingFields{index.TemplateByClass: object.Name}, client.Limit(1))
		if err != nil {
			return fmt.Errorf("look up MCMMachineTemplates of MachineClass %s: %w", object.Name, err)
		}
		used = len(list.Items) > 0
	}
	if used {
		setMoveLabel(object)
	}
	_, moves := object.Labels[capi.MoveLabel]
	native := slices.Contains(object.Finalizers, machinev1.Finalizer)
	switch blocked := object.Annotations[capi.BlockMoveAnnotation]; {
	case native && moves && blocked == "":
		machinev1.SetAnnotation(object, capi.BlockMoveAnnotation, nativeUsers)
	case !native && blocked == nativeUsers:
		delete(object.Annotations, capi.BlockMoveAnnotation)
	}
	return nil
}

// setMoveLabel has clusterctl move o. It does not read the label's value, so that stays.
func setMoveLabel(o client.Object) {
	machinev1.SetLabel(o, capi.MoveLabel, o.GetLabels()[capi.MoveLabel])
}

// keys returns the keys of objects of a namespace.
func keys(namespace string, names []string) (found []client.ObjectKey) {
	for _, name := range names {
		found = append(found, client.ObjectKey{Namespace: namespace, Name: name})
	}
	return found
}
