package migration_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

func TestApart(t *testing.T) {
	t.Parallel()
	system := func(uid types.UID) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: uid}}
	}
	for _, c := range []struct {
		reason          string
		control, target *corev1.Namespace
		want            bool
	}{
		{"two clusters", system("a"), system("b"), true},
		{"two ways to one cluster", system("a"), system("a"), false},
		{"one that does not tell", system("a"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false},
	} {
		got, err := migration.Apart(t.Context(), pools.Served(t).WithObjects(c.control).Build(),
			pools.Served(t).WithObjects(c.target).Build())
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.reason, got, err)
		}
	}
}
