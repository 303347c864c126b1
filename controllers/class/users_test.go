package class

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const byClass = "by-class"

func machineIn(namespace, name, kind, class string) *machinev1.Machine {
	m := &machinev1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.Spec.Class = machinev1.ClassSpec{Kind: kind, Name: class}
	return m
}

func reader(t *testing.T, machines ...client.Object) client.Reader {
	t.Helper()
	return limited{harness.New(t, harness.With(machines...), harness.Indexed([]index.Index{{
		Object: &machinev1.Machine{}, Field: byClass, Extract: func(o client.Object) []string {
			return []string{o.(*machinev1.Machine).Spec.Class.Name}
		},
	}})).Raw}
}

// limited returns no more objects than were asked for, as a cache does.
type limited struct{ client.Reader }

func (r limited) List(ctx context.Context, into client.ObjectList, which ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(which)
	if err := r.Reader.List(ctx, into, which...); err != nil {
		return err
	}
	list := into.(*machinev1.MachineList)
	if most := int(options.Limit); most > 0 && len(list.Items) > most {
		list.Items = list.Items[:most]
	}
	return nil
}

func TestFind(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	const kind = machinev1.MachineClassKind
	cases := map[string]struct {
		reason       string
		cached, live []client.Object
		deleting     bool
		want         users
	}{
		"None": {"Nobody uses the class.", nil, nil, true, users{}},
		"One": {
			"Of a class that stays, one user is enough.",
			[]client.Object{machineIn("n", "a", kind, "c"), machineIn("n", "b", kind, "c")},
			nil, false,
			users{1, "a"},
		},
		"All": {
			"Of a class that is being deleted, all users are counted.",
			[]client.Object{machineIn("n", "b", kind, "c"), machineIn("n", "a", kind, "c")},
			nil, true,
			users{2, "a"},
		},
		"OtherKind": {
			"The first object of the index may name another kind of that name.",
			[]client.Object{machineIn("n", "a", "Other", "c"), machineIn("n", "b", kind, "c")},
			nil, false,
			users{1, "b"},
		},
		"OtherNamespace": {
			"A class of the same name elsewhere is another class.",
			[]client.Object{machineIn("x", "a", kind, "c")},
			nil, true,
			users{},
		},
		"Stale": {
			"The API server has a user that the cache does not show.",
			nil,
			[]client.Object{machineIn("n", "a", kind, "c"), machineIn("n", "z", kind, "d")},
			true,
			users{1, "a"},
		},
		"NotConfirmed": {
			"The API server is asked only where confirm reports so.",
			nil,
			[]client.Object{machineIn("n", "a", kind, "c")},
			false,
			users{},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := finder[machinev1.MachineList, *machinev1.MachineList]{
				cached: reader(t, tc.cached...), live: reader(t, tc.live...), index: byClass,
				uses: func(o client.Object, class string) bool {
					ref := o.(*machinev1.Machine).Spec.Class
					return ref.Kind == kind && ref.Name == class
				},
				confirm: func(class *machinev1.MachineClass) bool { return !class.DeletionTimestamp.IsZero() },
			}
			class := &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
			if tc.deleting {
				class.DeletionTimestamp = &now
			}
			got, err := f.find(t.Context(), class)
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v, want %+v: %s", got, err, tc.want, tc.reason)
			}
		})
	}
}
