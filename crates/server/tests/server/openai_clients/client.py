"""Uses the server through the official client and prints what it received, as JSON."""

import json
import sys

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
told = {}

told["models"] = [model.id for model in client.models.list()]

whole = client.chat.completions.create(
    model="neuraxis", messages=[{"role": "user", "content": "Hello."}], user="ada", seed=7
)
told["whole"] = [whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.total_tokens]

pieces = client.chat.completions.create(
    model="reasoning",
    messages=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello."}],
    stream=True,
    stream_options={"include_usage": True},
)
text, thoughts, usage = "", "", None
for piece in pieces:
    if piece.choices:
        text += piece.choices[0].delta.content or ""
        thoughts += getattr(piece.choices[0].delta, "reasoning_content", None) or ""
    usage = piece.usage or usage
told["streamed"] = [text, thoughts, usage.total_tokens]

weather = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
messages = [{"role": "user", "content": "Do I need a coat?"}]
with client.chat.completions.stream(model="neuraxis", messages=messages, tools=[weather]) as stream:
    for _ in stream:
        pass
    asked = stream.get_final_completion().choices[0].message
call = asked.tool_calls[0]
messages.append(asked.to_dict())
messages.append({"role": "tool", "tool_call_id": call.id, "content": "3 degrees"})
answer = client.chat.completions.create(model="neuraxis", messages=messages, tools=[weather])
told["tool"] = [call.function.name, json.loads(call.function.arguments), answer.choices[0].message.content]


class Count(BaseModel):
    n: int


parsed = client.chat.completions.parse(
    model="neuraxis",
    messages=[{"role": "user", "content": "How many?"}],
    response_format=Count,
)
told["parsed"] = parsed.choices[0].message.parsed.n

first = client.responses.create(model="neuraxis", input="I live in Oslo.", instructions="Be brief.")
flat = {"type": "function", "strict": True, **weather["function"]}
with client.responses.stream(
    model="neuraxis", input="Do I need a coat?", previous_response_id=first.id, tools=[flat]
) as stream:
    kinds = [event.type for event in stream]
    second = stream.get_final_response()
call = next(item for item in second.output if item.type == "function_call")
output = {"type": "function_call_output", "call_id": call.call_id, "output": "3 degrees"}
third = client.responses.create(model="neuraxis", input=[output], previous_response_id=second.id)
told["responses"] = [first.output_text, call.name, third.output_text, third.status, kinds[0], kinds[-1]]
told["again"] = client.responses.retrieve(third.id).output_text

try:
    client.chat.completions.create(model="gpt-4o", messages=messages)
except openai.NotFoundError as error:
    told["error"] = [error.code, error.param]

print(json.dumps(told))
