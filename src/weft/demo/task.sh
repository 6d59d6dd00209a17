echo "begin $WEFT_TASK $WEFT_ATTEMPT $$" >> journal
sleep "$1"
echo "end $WEFT_TASK $WEFT_ATTEMPT $$" >> journal
echo "$WEFT_TASK took $1 s in attempt $WEFT_ATTEMPT"
