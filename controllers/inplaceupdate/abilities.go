package inplaceupdate

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
)

// What NodeAgentUpdatesAnnotation can list.
const (
	itemVersion     = "version"
	itemBootstrap   = "bootstrap"
	itemClassPrefix = "providerSpec."
)

// abilities are what an agent on the node can change. The zero value is no agent.
type abilities struct {
	version, bootstrap bool
	class              [][]string // paths in a class's providerSpec
}

// none reports whether there is no agent.
func (a abilities) none() bool { return !a.version && !a.bootstrap && len(a.class) == 0 }

// abilitiesOf reads the annotation of a Machine, or of the metadata that it is
// made from. An unknown entry is an error, and then nothing counts.
func abilitiesOf(annotations map[string]string) (abilities, error) {
	var a abilities
	for entry := range strings.SplitSeq(annotations[infrav1.NodeAgentUpdatesAnnotation], ",") {
		switch entry = strings.TrimSpace(entry); {
		case entry == "":
		case entry == itemVersion:
			a.version = true
		case entry == itemBootstrap:
			a.bootstrap = true
		case strings.HasPrefix(entry, itemClassPrefix) && !slices.Contains(strings.Split(entry, "."), ""):
			a.class = append(a.class, strings.Split(entry, ".")[1:])
		default:
			return abilities{}, fmt.Errorf("annotation %s: %q is unknown; use %s, %s or %s<field>",
				infrav1.NodeAgentUpdatesAnnotation, entry,
				itemVersion, itemBootstrap, itemClassPrefix)
		}
	}
	return a, nil
}
