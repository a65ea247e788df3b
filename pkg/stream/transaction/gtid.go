package transaction

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/vifl/vifl/pkg/stream/dump"
)

// identify takes in the GTID of the transaction that begins.
func (s *session) identify(e *dump.Event) (err error) {
	if s.gtid, err = parseGTID(e); err != nil {
		return s.broken(e, "%w", err)
	}
	if s.Skip == nil || s.gtid.Server == "" {
		return nil
	}
	s.skipped, err = s.Skip(s.gtid)
	return err
}

// parseGTID reads the identifier of a GTID event; none of an anonymous one.
func parseGTID(e *dump.Event) (GTID, error) {
	switch e.Type {
	case replication.GTID_EVENT:
		// A byte of flags, the server's uuid, the number.
		if len(e.Body) < 25 {
			return GTID{}, fmt.Errorf("it has %d bytes", len(e.Body))
		}
		return GTID{Server: uuid(e.Body[1:17]), Number: int64(binary.LittleEndian.Uint64(e.Body[17:25]))}, nil
	case replication.GTID_TAGGED_LOG_EVENT:
		var tagged replication.GtidTaggedLogEvent
		if err := tagged.Decode(e.Body); err != nil {
			return GTID{}, err
		}
		return GTID{Server: uuid(tagged.SID), Number: tagged.GNO, Tag: tagged.Tag}, nil
	}
	return GTID{}, nil
}

func uuid(b []byte) string {
	if len(b) != 16 {
		return ""
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// passBy looks in a transaction that is skipped only for its end.
func (s *session) passBy(e *dump.Event) error {
	switch e.Type {
	case replication.XID_EVENT, replication.XA_PREPARE_LOG_EVENT:
		return s.end(e)
	case replication.TRANSACTION_PAYLOAD_EVENT:
		return e.Payload(s.event)
	case replication.QUERY_EVENT:
		text, err := dump.QueryText(e.Body)
		if err != nil {
			return s.broken(e, "%w", err)
		}
		switch word := strings.ToUpper(string(text)); {
		case !s.begun && (word == "BEGIN" || strings.HasPrefix(word, "XA START")):
			s.begun = true
		case !s.begun, word == "COMMIT", word == "ROLLBACK":
			return s.end(e) // also a statement that is a transaction by itself
		}
	case replication.FORMAT_DESCRIPTION_EVENT, replication.ROTATE_EVENT, replication.STOP_EVENT, replication.GTID_EVENT, replication.ANONYMOUS_GTID_EVENT:
		return s.broken(e, "the transaction behind %s is cut off", s.boundary)
	}
	return nil
}
