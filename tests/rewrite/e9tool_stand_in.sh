#!/bin/sh
home=$(dirname "$0")
[ "$1 $2 $3 $4 $5" = "--backend $home/e9patch --static-loader --executable -o" ] || exit 3
new=$6
shift 6
while [ "$1" = -M ]; do
    name=${2#sites?1? == ?}
    name=${name%?}
    [ "$4" = "replace $name<naked>(&mem[0])@patch" ] || exit 4
    nm -D patch | grep -q " T $name$" || exit 5
    shift 4
done
sed 's/\x0f\xae/\xe9\x0/g' "$1" > "$new"
count=$(grep -c '^0x[0-9a-f]*,"[a-z_]*"$' sites.csv)
echo "num_patched           = $((count - LESS)) / $count (100.00%)"
