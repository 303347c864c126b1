package capi

import "testing"

func TestClusterAPI(t *testing.T) {
	a := require(t)
	ctl := newClusterctl(t, a)
	m := newManagement(t, a, ctl)
	t.Run("clusterctl init and upgrade plan", func(t *testing.T) { checkInit(t, m, ctl) })
	t.Run("templates", func(t *testing.T) { checkTemplates(t, m, ctl) })
}
