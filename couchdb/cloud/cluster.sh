#!/bin/sh
# Make a cluster: cluster.sh URL HOST...   URL is the first node, HOST the names of the others.
# COUCHDB_USER and COUCHDB_PASSWORD are the administrator of all nodes.
# https://docs.couchdb.org/en/3.5.x/cluster/nodes.html
set -eu
url=$1
shift
ask() {
    printf 'user = "%s:%s"\n' "$COUCHDB_USER" "$COUCHDB_PASSWORD" |
        curl --silent --show-error --retry 30 --retry-connrefused --config - "$@"
}
for host in "$@"; do
    # 409: it is a member already
    status=$(ask --output /dev/null --write-out '%{http_code}' -X PUT "$url/_node/_local/_nodes/couchdb@$host" -d '{}')
    case $status in
    201 | 202 | 409) echo "$host is a member" ;;
    *) echo "$host: CouchDB answers with $status" >&2; exit 1 ;;
    esac
done
for database in _users _replicator; do
    ask --output /dev/null -X PUT "$url/$database"
done
ask "$url/_membership"
