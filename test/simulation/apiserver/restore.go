package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Restore puts all objects back to how they were at that time, as from a backup of etcd, and
// the version of the server with them. Watches are told nothing: caches find that their
// position is of another life of the server, and list again.
func (s *Server) Restore(to time.Time) {
	s.lives++
	s.version = 0
	for _, k := range s.kinds {
		n := len(k.log)
		for n > 0 && k.log[n-1].At.After(to) {
			n--
		}
		k.log = k.log[:n:n]
		k.lives++
		k.stored = map[types.NamespacedName]*entry{}
		for _, c := range k.log {
			s.version = max(s.version, c.Version)
			if c.New == nil {
				delete(k.stored, client.ObjectKeyFromObject(c.Old))
				continue
			}
			k.stored[client.ObjectKeyFromObject(c.New)] = &entry{object: c.New}
		}
	}
}

// Bump has the versions of changes go on from that one, as etcdutl does after a restore
// where it is asked to.
func (s *Server) Bump(version uint64) { s.version = max(s.version, version) }

// Lives is how often the server was restored.
func (s *Server) Lives() int { return s.lives }

// Lives is how often the objects of the kind were restored: with another number, a position
// in the log means nothing any more.
func (k *Kind) Lives() int { return k.lives }
